"""All MCP servers of an agent, as a source of tools. Nothing is started before a turn that may use it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from agent_common.protocol import McpServerState, SkillState
from agent_common.protocol.authority import Authority

from ..tools import Tool
from .config.config import LocalServer, ServerConfig
from .session.server_connection import ServerConnection
from .session.timeouts import Timeouts
from .tools.names import starts
from .transport.transports import ConnectorDeps

AT_ONCE = 4
"""Servers that are started at the same time."""


class ConnectorManager:
    """Tool provider for the servers that the operator has named. `ready` it for a turn; `close` it."""

    def __init__(
        self, servers: Sequence[ServerConfig], ground: ConnectorDeps, patience: Timeouts | None = None
    ) -> None:
        names = frozenset(server.name for server in servers)
        self._patience = patience or Timeouts()
        starting = asyncio.Semaphore(AT_ONCE)
        self._links = [ServerConnection(server, names, ground, starting, self._patience) for server in servers]

    def tools(self) -> Sequence[Tool]:
        """Those that are known: a server's, from the first time that it has listed them."""
        return tuple(tool for link in self._links for tool in link.tools)

    def states(self) -> Sequence[SkillState]:
        return ()

    def servers(self) -> Sequence[McpServerState]:
        """All servers and how they are."""
        return tuple(_state(link) for link in self._links)

    def offered(self, authority: Authority) -> Sequence[tuple[str, Sequence[str]]]:
        """The servers whose tools an agent may have, and the names of their tools, as far as they are known."""
        return [
            (link.server.name, [tool.spec.name for tool in link.tools])
            for link in self._links
            if link.server.enabled and authority.may_offer(*starts(link.server.name))
        ]

    async def ready(self, authority: Authority) -> None:
        """Called when a turn begins: connects to servers of which nothing is known and that the agent may use, and
        waits for them, not longer than `Patience.wait`."""
        enabled = [link for link in self._links if link.server.enabled]
        wanted = [link for link in enabled if authority.may_offer(*starts(link.server.name))]
        for link in wanted:
            link.touch()
        new = [link for link in wanted if not link.listed]
        for link in new:
            link.wake()
        await asyncio.gather(*(link.settled() for link in new))

    async def close(self) -> None:
        """Ends all connections and all programs."""
        await asyncio.gather(*(link.close() for link in self._links))


def _state(link: ServerConnection) -> McpServerState:
    return McpServerState(
        name=link.server.name,
        kind="local" if isinstance(link.server.where, LocalServer) else "remote",
        state=link.state if link.server.enabled else "disabled",
        tools=[tool.spec.name for tool in link.tools],
        error=link.reason,
    )
