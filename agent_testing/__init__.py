"""Doubles for tests of this package and of programs that use it: a provider, a bridge, the two ends of
the mediation channel, Telegram, live processes, a clock."""

from .bridge import BridgeFaults, BridgeLink, Counts, Event, FakeBridge, Trip, schedule
from .channel import PeerConnection, StubAgent, StubListener, StubSession
from .clock import ManualClock
from .discord import FakeDiscord
from .process import LiveProcess
from .provider import (
    Call,
    Drop,
    Fail,
    Garbage,
    Hang,
    Raw,
    Recorded,
    Reply,
    Say,
    Script,
    ScriptedProvider,
    Step,
    step_from_json,
    step_to_json,
)
from .telegram import FakeTelegram, TelegramFaults, TelegramLimits

__all__ = [
    "BridgeFaults",
    "BridgeLink",
    "Call",
    "Counts",
    "Drop",
    "Event",
    "Fail",
    "FakeBridge",
    "FakeDiscord",
    "FakeTelegram",
    "Garbage",
    "Hang",
    "LiveProcess",
    "ManualClock",
    "PeerConnection",
    "Raw",
    "Recorded",
    "Reply",
    "Say",
    "Script",
    "ScriptedProvider",
    "Step",
    "StubAgent",
    "StubListener",
    "StubSession",
    "TelegramFaults",
    "TelegramLimits",
    "Trip",
    "schedule",
    "step_from_json",
    "step_to_json",
]
