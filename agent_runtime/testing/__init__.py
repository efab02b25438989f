"""Doubles for tests of this package and of programs that use it: a scripted provider, live processes, a clock."""

from .clock import ManualClock
from .process import LiveProcess
from .provider import ScriptedProvider
from .record import Recorded
from .script import Reply, Script
from .steps import Call, Drop, Fail, Garbage, Hang, Say, Step, step_from_json, step_to_json

__all__ = [
    "Call",
    "Drop",
    "Fail",
    "Garbage",
    "Hang",
    "LiveProcess",
    "ManualClock",
    "Recorded",
    "Reply",
    "Say",
    "Script",
    "ScriptedProvider",
    "Step",
    "step_from_json",
    "step_to_json",
]
