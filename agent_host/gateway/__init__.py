"""The gateway passes `/workspaces/{id}/api/...` on to the HTTP API of that workspace's agent."""

from .connections import AgentConnection, AgentConnections
from .gateway import AgentGateway, AgentUnreachable, is_agent_request
from .headers import request_head

__all__ = [
    "AgentConnection",
    "AgentConnections",
    "AgentGateway",
    "AgentUnreachable",
    "is_agent_request",
    "request_head",
]
