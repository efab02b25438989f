"""The client's side of a hub, for programs and for runtimes: links that come back, agents, sessions and handlers.

Programs import these names from `agent_client.hub`. A runtime loads this package only if it joins a hub.
"""

from .agent_client import AgentClient
from .connection import Connection
from .default_handler import (
    AGENT_CLIENT_DEP,
    HUB_DEP,
    SESSION_DEP,
    accept_invitation,
    answer,
    default_handler,
    earlier_outcome,
    may_ask,
    read_wal_until,
    resolve_view_policy,
    send_reply,
    stamp_dependencies,
)
from .hub_client import HubClient
from .interfaces import MemoryStream, NetworkAgent
from .links import Link, LinkClient, LocalHub, LocalLink, LocalLinkClient, LocalLinkEndpoint
from .session import Session
from .task_mirror import TaskMirror
from .tasks import Tasks
from .web_socket import HubAddress, WebSocketLink, WebSocketLinkClient

__all__ = [
    "AGENT_CLIENT_DEP",
    "HUB_DEP",
    "SESSION_DEP",
    "AgentClient",
    "Connection",
    "HubAddress",
    "HubClient",
    "Link",
    "LinkClient",
    "LocalHub",
    "LocalLink",
    "LocalLinkClient",
    "LocalLinkEndpoint",
    "MemoryStream",
    "NetworkAgent",
    "Session",
    "TaskMirror",
    "Tasks",
    "WebSocketLink",
    "WebSocketLinkClient",
    "accept_invitation",
    "answer",
    "default_handler",
    "earlier_outcome",
    "may_ask",
    "read_wal_until",
    "resolve_view_policy",
    "send_reply",
    "stamp_dependencies",
]
