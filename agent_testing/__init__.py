"""Doubles for tests of this package and of programs that use it: providers, a bridge, the two ends of
the mediation channel, Telegram, live processes, a clock."""

from .anthropic import Blocks, FakeAnthropic
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
from .responses import FakeResponses, Items
from .strict import StrictProvider
from .telegram import FakeTelegram, TelegramFaults, TelegramLimits

__all__ = [
    "Blocks",
    "BridgeFaults",
    "BridgeLink",
    "Call",
    "Counts",
    "Drop",
    "Event",
    "Fail",
    "FakeAnthropic",
    "FakeBridge",
    "FakeDiscord",
    "FakeResponses",
    "FakeTelegram",
    "Garbage",
    "Hang",
    "Items",
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
    "StrictProvider",
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
