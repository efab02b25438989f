"""What an operator reads of a host's hub. To follow it live, see `agent_client.hub.HubWatcher`."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from .host_messages import HubAgent, HubAgentPage, HubSession, HubSessionPage
from .http import Call, Connection, pages


class HostHub:
    """The host's hub, for the operator."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def agents(self) -> AsyncGenerator[HubAgent]:
        """Yield the agents that are registered, by name."""
        async for page in pages(self._connection, HubAgentPage, Call("GET", "/hub/agents")):
            for agent in page.agents:
                yield agent

    async def sessions(self, agent: str | None = None) -> AsyncGenerator[HubSession]:
        """Yield the sessions of all agents or of one, by name or id, those that are over too. Raises NotFound."""
        call = Call("GET", "/hub/sessions", params={} if agent is None else {"agent": agent})
        async for page in pages(self._connection, HubSessionPage, call):
            for session in page.sessions:
                yield session
