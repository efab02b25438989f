"""A fake bridge: the supervisor's way between a guest and its mediation listener, with faults on demand."""

from .byte_pump import Trip
from .cli import main as bridge_command
from .counts import Counts
from .fake import FakeBridge
from .faults import Event, Faults
from .link import Link
from .pace import ManualPace, Pace, RealPace
from .readiness import Channel, MediationReady
from .schedule import schedule

__all__ = [
    "Channel",
    "Counts",
    "Event",
    "FakeBridge",
    "Faults",
    "Link",
    "ManualPace",
    "MediationReady",
    "Pace",
    "RealPace",
    "Trip",
    "bridge_command",
    "schedule",
]
