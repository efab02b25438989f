"""Takes connections, never waits for one of them."""

from __future__ import annotations

import asyncio
import weakref

from agent_common.net import Endpoint, ListeningSocket, Tcp

from ..channels.channel import WorkspaceChannel
from ..parts import Parts
from .handshake import Handshake
from .socket import AgentConnection


class Acceptor:
    """Listens at one address; all agents' or one workspace's own."""

    def __init__(
        self, parts: Parts, pending: PendingConnections, listening: ListeningSocket, channel: WorkspaceChannel | None
    ) -> None:
        self._parts, self._pending, self._listening, self._channel = parts, pending, listening, channel
        self._server: asyncio.Server | None = None

    @property
    def address(self) -> Endpoint:
        """With the port that it got."""
        return self._listening.endpoint

    async def open(self) -> None:
        loop, bound, backlog = asyncio.get_running_loop(), self._listening.sock, self._parts.limits.backlog
        if isinstance(self.address, Tcp):
            self._server = await loop.create_server(self._make_connection, sock=bound, backlog=backlog)
        else:
            self._server = await loop.create_unix_server(self._make_connection, sock=bound, backlog=backlog)

    def _make_connection(self) -> AgentConnection:
        return self._pending.make_connection(self._channel)

    def close(self) -> None:
        """No new connections; those that there are stay."""
        if self._server is not None:
            self._server.close()
        self._listening.close()


class PendingConnections:
    """Connections that have proved nothing: few, and not for long."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._unproven: dict[int, Handshake] = {}
        self._connections: weakref.WeakSet[AgentConnection] = weakref.WeakSet()
        self._count = 0
        self._closed = False

    @property
    def unproven(self) -> int:
        return len(self._unproven)

    def make_connection(self, channel: WorkspaceChannel | None) -> AgentConnection:
        """A new connection, at the address of that workspace or at that of all."""
        self._count += 1
        number = self._count
        self._parts.metrics.count("connections")
        hello = Handshake(self._parts, channel, lambda _: self._unproven.pop(number, None) and None)
        hello.connection = AgentConnection(number, hello, self._parts.limits, self._parts.timers, self._parts.clock)
        self._connections.add(hello.connection)
        self._unproven[number] = hello
        if self._closed:
            hello.refuse("closing")
        if len(self._unproven) > self._parts.limits.unproven:
            self._unproven[next(iter(self._unproven))].refuse("too_many_unproven")
        return hello.connection

    def close(self) -> None:
        """Lets go of all that have proved nothing, those included that come at this moment."""
        self._closed = True
        for hello in tuple(self._unproven.values()):
            hello.refuse("closing")

    async def abort_all(self) -> None:
        """Ends what connections there still are."""
        for wire in tuple(self._connections):
            wire.abort("closing")
        for _ in range(3):  # what ends is told so by the event loop, one turn later
            await asyncio.sleep(0)
