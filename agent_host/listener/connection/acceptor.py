"""Accept connections, and keep those that have proved nothing few and short."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Callable
from functools import partial

from agent_common.net import Endpoint, ListeningSocket, Tcp

from ..addresses import bind
from ..channels.channel import WorkspaceChannel
from ..channels.workspace_channels import WorkspaceChannels
from .events import SessionServices
from .handshake import Handshake
from .socket import AgentConnection


class Acceptor:
    """Listens at one address."""

    def __init__(self, listening: ListeningSocket, *, backlog: int, connect: Callable[[], AgentConnection]) -> None:
        """`connect` makes the protocol of each new connection."""
        self._listening, self._backlog, self._connect = listening, backlog, connect
        self._server: asyncio.Server | None = None

    @property
    def address(self) -> Endpoint:
        """The address with the port that was taken."""
        return self._listening.endpoint

    async def open(self) -> None:
        loop, bound = asyncio.get_running_loop(), self._listening.sock
        if isinstance(self.address, Tcp):
            self._server = await loop.create_server(self._connect, sock=bound, backlog=self._backlog)
        else:
            self._server = await loop.create_unix_server(self._connect, sock=bound, backlog=self._backlog)

    def close(self) -> None:
        """Accept no more connections; those that were accepted stay."""
        if self._server is not None:
            self._server.close()
        self._listening.close()


class Acceptors:
    """All addresses: the one that agents share, and those of single workspaces."""

    def __init__(self, pending: PendingConnections, *, backlog: int) -> None:
        self._pending, self._backlog = pending, backlog
        self._by_workspace: dict[str | None, Acceptor] = {}

    @property
    def shared_address(self) -> Endpoint | None:
        """The address that agents share, with the port that was taken; None if there is none."""
        acceptor = self._by_workspace.get(None)
        return acceptor.address if acceptor else None

    async def open(
        self, channel: WorkspaceChannel | None, address: Endpoint, bound: ListeningSocket | None = None
    ) -> None:
        """Listen at the address of one workspace; with None as channel, at the one that all share.

        `bound`: a socket that is bound already. Raises StartError.
        """
        if bound is None:
            bound = bind(address, self._backlog)
        acceptor = Acceptor(bound, backlog=self._backlog, connect=lambda: self._pending.connect(channel))
        await acceptor.open()
        self._by_workspace[channel.workspace if channel else None] = acceptor
        if channel is not None:
            channel.address = acceptor.address

    def is_open(self, workspace: str) -> bool:
        """Whether the workspace's own address is listened at."""
        return workspace in self._by_workspace

    def close(self, workspace: str) -> None:
        """Close the workspace's own address. Idempotent."""
        acceptor = self._by_workspace.pop(workspace, None)
        if acceptor is not None:
            acceptor.close()

    def close_all(self) -> None:
        for acceptor in self._by_workspace.values():
            acceptor.close()


class PendingConnections:
    """Connections that have proved nothing: few, and not for long."""

    def __init__(self, services: SessionServices, channels: WorkspaceChannels) -> None:
        self._services, self._channels = services, channels
        self._unproven: dict[int, Handshake] = {}
        self._connections: weakref.WeakSet[AgentConnection] = weakref.WeakSet()
        self._count = 0
        self._closed = False

    @property
    def unproven(self) -> int:
        """How many connections have proved nothing yet."""
        return len(self._unproven)

    def connect(self, channel: WorkspaceChannel | None) -> AgentConnection:
        """Make the protocol of a new connection. `channel`: the workspace whose own address it came to, else None."""
        self._count += 1
        number = self._count
        self._services.metrics.count("connections")
        handshake = Handshake(
            self._services, self._channels, channel, number, on_finished=partial(self._unproven.pop, number, None)
        )
        self._connections.add(handshake.connection)
        self._unproven[number] = handshake
        if self._closed:
            handshake.refuse("closing")
        if len(self._unproven) > self._services.limits.unproven:
            self._unproven[next(iter(self._unproven))].refuse("too_many_unproven")
        return handshake.connection

    def close(self) -> None:
        """Refuse all that have proved nothing, and those that still come."""
        self._closed = True
        for handshake in tuple(self._unproven.values()):
            handshake.refuse("closing")

    async def abort_all(self) -> None:
        """End all connections."""
        for connection in tuple(self._connections):
            connection.abort("closing")
        for _ in range(3):  # the event loop reports an aborted connection in a later turn
            await asyncio.sleep(0)
