"""The hub: agents talk to each other in sessions (docs/protocols/hub.md). Usable without the rest of the host."""

from .agents import Agent
from .hub import Hub
from .limits import HubLimits
from .links import HubConnection
from .registry import AgentQuery
from .sessions import Opening

__all__ = ["Agent", "AgentQuery", "Hub", "HubConnection", "HubLimits", "Opening"]
