"""Doubles for tests of this package and of programs that use it: a provider, a bridge, the two ends of
the mediation channel, live processes, a clock."""

from .agent import AGENT_FAULTS, LOOSE_AGENT_FAULTS, StubAgent
from .bridge import (
    Channel,
    Counts,
    Event,
    FakeBridge,
    Faults,
    Link,
    ManualPace,
    MediationReady,
    Pace,
    RealPace,
    Trip,
    schedule,
)
from .clock import ManualClock
from .listener import LISTENER_FAULTS, LOOSE_LISTENER_FAULTS, StubListener
from .process import LiveProcess
from .provider import ScriptedProvider
from .record import Recorded
from .script import Reply, Script
from .steps import Call, Drop, Fail, Garbage, Hang, Say, Step, step_from_json, step_to_json

__all__ = [
    "AGENT_FAULTS",
    "LISTENER_FAULTS",
    "LOOSE_AGENT_FAULTS",
    "LOOSE_LISTENER_FAULTS",
    "Call",
    "Channel",
    "Counts",
    "Drop",
    "Event",
    "Fail",
    "FakeBridge",
    "Faults",
    "Garbage",
    "Hang",
    "Link",
    "LiveProcess",
    "ManualClock",
    "ManualPace",
    "MediationReady",
    "Pace",
    "RealPace",
    "Recorded",
    "Reply",
    "Say",
    "Script",
    "ScriptedProvider",
    "Step",
    "StubAgent",
    "StubListener",
    "Trip",
    "schedule",
    "step_from_json",
    "step_to_json",
]
