"""The connections to agents: kept for further requests, and cut when an agent is fenced or stopped."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from dataclasses import dataclass, field

from agent_common.net import HttpConnection

from ..fleet import RunningAgent
from .headers import RawHeaders

HIGH_WATER = 64 * 1024
"""Less than for a model's answer: people may have hundreds of requests open, whose readers may all be slow."""
MAX_IDLE = 16
"""Most unused connections to one agent that are kept."""
IDLE_SECONDS = 2.0
"""An unused connection is kept for less time than the agent's server waits before it closes one."""


class AgentConnection(HttpConnection):
    """A connection to an agent's server that keeps all headers of an answer."""

    high_water = HIGH_WATER

    def __init__(self) -> None:
        super().__init__()
        self.raw_headers: RawHeaders = []
        self.reused = False

    def expect_reply(self) -> None:
        super().expect_reply()
        self.raw_headers = []

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self.status:
            self.raw_headers.append((name.lower(), value))
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        super().on_headers_complete()
        if not self.status:  # an announcement such as 100
            self.raw_headers = []


@dataclass(slots=True)
class _OfAgent:
    idle: list[AgentConnection] = field(default_factory=list[AgentConnection])
    used: set[AgentConnection] = field(default_factory=set[AgentConnection])
    opening: int = 0


class AgentConnections:
    """All connections of the gateway, by workspace."""

    def __init__(self) -> None:
        self._by_workspace: defaultdict[str, _OfAgent] = defaultdict(_OfAgent)

    async def open(self, workspace_id: str, agent: RunningAgent, *, fresh: bool = False) -> AgentConnection:
        """Return a connection for one request. `fresh`: a new one. Raises OSError, also if the agent is cut meanwhile,
        and NotOffered."""
        mine = self._by_workspace[workspace_id]
        now = asyncio.get_running_loop().time()
        while mine.idle and not fresh:
            connection = mine.idle.pop()
            if connection.reusable and now - connection.idle_since < IDLE_SECONDS:
                connection.reused = True
                break
            connection.close()
        else:
            connection = await self._connect(workspace_id, mine, agent)
        mine.used.add(connection)
        return connection

    async def _connect(self, workspace_id: str, mine: _OfAgent, agent: RunningAgent) -> AgentConnection:
        mine.opening += 1
        try:
            connection = await agent.runtime.connect(AgentConnection)
        finally:
            mine.opening -= 1
        if self._by_workspace.get(workspace_id) is not mine:  # its connections were cut before it was one of them
            connection.close()
            raise ConnectionResetError("its connections were cut")
        return connection

    def release(self, workspace_id: str, connection: AgentConnection, *, complete: bool) -> None:
        """Take a connection back. `complete`: request and answer were passed whole, so that it can carry another."""
        mine = self._by_workspace[workspace_id]
        if connection in mine.used and complete and connection.reusable and len(mine.idle) < MAX_IDLE:
            connection.idle_since = asyncio.get_running_loop().time()
            mine.idle.append(connection)
        else:
            connection.close()
        mine.used.discard(connection)
        if not (mine.used or mine.idle or mine.opening):
            self._by_workspace.pop(workspace_id, None)

    def cut(self, workspace_id: str) -> None:
        """Close all connections to an agent at once, used ones and those that are being opened too."""
        mine = self._by_workspace.pop(workspace_id, _OfAgent())
        for connection in (*mine.idle, *mine.used):
            connection.close()

    def close(self) -> None:
        for workspace_id in list(self._by_workspace):
            self.cut(workspace_id)
