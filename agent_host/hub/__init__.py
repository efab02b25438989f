"""The hub: agents talk to each other in sessions (docs/protocols/hub.md). Usable without the rest of the host."""

from .agents import Agent
from .http import router
from .hub import Hub
from .limits import HubLimits
from .links import HubConnection, LinkRights, SocketLink
from .registry import AgentQuery
from .sessions import Opening
from .store import SqlStore

__all__ = [
    "Agent",
    "AgentQuery",
    "Hub",
    "HubConnection",
    "HubLimits",
    "LinkRights",
    "Opening",
    "SocketLink",
    "SqlStore",
    "router",
]
