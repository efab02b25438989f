"""A fake bridge: the supervisor's way between a guest and its mediation listener, with faults on demand."""

from .bridge_clock import BridgeClock, ManualBridgeClock, SystemBridgeClock
from .byte_pump import Trip
from .cli import main as bridge_command
from .counts import Counts
from .fake import FakeBridge
from .faults import BridgeFaults, Event
from .link import BridgeLink
from .readiness import BridgeChannel, MediationReady
from .schedule import schedule

__all__ = [
    "BridgeChannel",
    "BridgeClock",
    "BridgeFaults",
    "BridgeLink",
    "Counts",
    "Event",
    "FakeBridge",
    "ManualBridgeClock",
    "MediationReady",
    "SystemBridgeClock",
    "Trip",
    "bridge_command",
    "schedule",
]
