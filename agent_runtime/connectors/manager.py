"""All MCP servers of an agent, as a source of tools. A server is started by the first turn that may use it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from agent_common.protocol import McpServerState, SkillState
from agent_common.protocol.authority import Authority

from ..tools import Tool
from .config.config import LocalServer, ServerConfig
from .session.server_connection import ServerConnection
from .session.timeouts import Timeouts
from .tools.names import name_prefixes
from .transport.transports import ConnectorDeps

MIN_SECRET_LENGTH = 8
"""Characters; shorter values of a server's environment, such as `true` or `debug`, are ordinary words."""
MAX_CONCURRENT_STARTS = 4
"""Most servers that are started at the same time."""


class ConnectorManager:
    """The tool provider for the configured servers. Call `ready` before each turn, and `close` at the end."""

    def __init__(self, servers: Sequence[ServerConfig], deps: ConnectorDeps, timeouts: Timeouts | None = None) -> None:
        names = frozenset(server.name for server in servers)
        self._timeouts = timeouts or Timeouts()
        starting = asyncio.Semaphore(MAX_CONCURRENT_STARTS)
        self._connections = [ServerConnection(server, names, deps, starting, self._timeouts) for server in servers]

    def secret_values(self) -> list[str]:
        """Return the secrets of all servers: they must never leave by an export or a log."""
        values = (secret for link in self._connections for secret in link.server.secrets)
        return [value for value in values if len(value) >= MIN_SECRET_LENGTH]

    def tools(self) -> Sequence[Tool]:
        """The known tools of all servers. A server's tools are known once it has listed them."""
        return tuple(tool for link in self._connections for tool in link.tools)

    def states(self) -> Sequence[SkillState]:
        return ()

    def servers(self) -> Sequence[McpServerState]:
        """Return the state of all servers."""
        return tuple(_state(link) for link in self._connections)

    def offered(self, authority: Authority) -> Sequence[tuple[str, Sequence[str]]]:
        """Return the servers whose tools the authority offers, each with the names of its known tools."""
        return [
            (link.server.name, [tool.spec.name for tool in link.tools])
            for link in self._connections
            if link.server.enabled and authority.may_offer(*name_prefixes(link.server.name))
        ]

    async def ready(self, authority: Authority) -> None:
        """Connect to the servers that the agent may use and whose tools are not known yet. Called when a turn starts.

        Waits for them at most `Timeouts.first_wait` seconds.
        """
        enabled = [link for link in self._connections if link.server.enabled]
        wanted = [link for link in enabled if authority.may_offer(*name_prefixes(link.server.name))]
        for link in wanted:
            link.mark_used()
        new = [link for link in wanted if not link.listed]
        for link in new:
            link.start_connecting()
        if new:
            await asyncio.gather(*(link.wait_for_attempt() for link in new))

    async def close(self) -> None:
        """Close all connections and end all programs."""
        await asyncio.gather(*(link.close() for link in self._connections))


def _state(connection: ServerConnection) -> McpServerState:
    return McpServerState(
        name=connection.server.name,
        kind="local" if isinstance(connection.server.target, LocalServer) else "remote",
        state=connection.state if connection.server.enabled else "disabled",
        tools=[tool.spec.name for tool in connection.tools],
        error=connection.reason,
        faults=list(connection.faults),
    )
