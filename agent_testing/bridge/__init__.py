"""A fake bridge: the supervisor's connection between a guest and its mediation listener, with faults on demand."""

from .bridge import Counts, FakeBridge
from .cli import main as bridge_command
from .link import BridgeLink, Trip
from .schedule import BridgeFaults, Event, schedule

__all__ = ["BridgeFaults", "BridgeLink", "Counts", "Event", "FakeBridge", "Trip", "bridge_command", "schedule"]
