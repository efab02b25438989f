"""Accept connections, and limit the number and the time of those that have not proved who they are."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Callable
from functools import partial

from agent_common.net import Endpoint, ListeningSocket, Tcp

from ..addresses import bind
from ..channels.channel import WorkspaceChannel
from .handshake import Handshake
from .services import SessionServices
from .socket import AgentConnection


class Acceptor:
    """Listens on one address."""

    def __init__(self, listening: ListeningSocket, *, backlog: int, connect: Callable[[], AgentConnection]) -> None:
        """`connect` returns the asyncio protocol for a new connection."""
        self._listening = listening
        self._backlog = backlog
        self._connect = connect
        self._server: asyncio.Server | None = None

    @property
    def address(self) -> Endpoint:
        """The address that is bound, with the actual port if port 0 was asked for."""
        return self._listening.endpoint

    async def open(self) -> None:
        loop = asyncio.get_running_loop()
        bound = self._listening.sock
        if isinstance(self.address, Tcp):
            self._server = await loop.create_server(self._connect, sock=bound, backlog=self._backlog)
        else:
            self._server = await loop.create_unix_server(self._connect, sock=bound, backlog=self._backlog)

    def close(self) -> None:
        """Stop accepting connections. Accepted connections stay open.

        asyncio hands an accepted connection over in the event loop's next iteration, and its server forgets one that
        comes after its end without closing it. So the server ends an iteration after the last connection.
        """
        loop = asyncio.get_running_loop()
        loop.remove_reader(self._listening.sock)
        self._listening.unlink()
        loop.call_soon(self._close_sockets)

    def _close_sockets(self) -> None:
        if self._server is not None:
            self._server.close()
        self._listening.close()


class Acceptors:
    """All listening addresses: one that agents share, and one for each workspace that has its own."""

    def __init__(self, pending: PendingConnections, *, backlog: int) -> None:
        self._pending = pending
        self._backlog = backlog
        self._by_workspace: dict[str | None, Acceptor] = {}

    @property
    def shared_address(self) -> Endpoint | None:
        """The bound address that agents share, or None if there is none."""
        acceptor = self._by_workspace.get(None)
        return acceptor.address if acceptor else None

    async def open(
        self, channel: WorkspaceChannel | None, address: Endpoint, bound: ListeningSocket | None = None
    ) -> None:
        """Listen on the address of one workspace, or on the shared address if `channel` is None.

        `bound`: a socket that is already bound to the address. Raises StartError if the address cannot be bound.
        """
        if bound is None:
            bound = bind(address, self._backlog)
        acceptor = Acceptor(bound, backlog=self._backlog, connect=lambda: self._pending.connect(channel))
        await acceptor.open()
        self._by_workspace[channel.workspace if channel else None] = acceptor
        if channel is not None:
            channel.address = acceptor.address

    def is_open(self, workspace: str) -> bool:
        """Whether the workspace has an address of its own that accepts connections."""
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
    """Makes connections and limits those whose agent has not yet proved who it is."""

    def __init__(self, services: SessionServices) -> None:
        self._services = services
        self._unproven: dict[str | None, dict[int, Handshake]] = {}
        """By the workspace whose address was dialled, None for the shared one; the oldest first."""
        self._connections: weakref.WeakSet[AgentConnection] = weakref.WeakSet()
        self._count = 0
        self._closed = False

    @property
    def unproven(self) -> int:
        """Number of connections whose agent has not proved who it is."""
        return sum(len(handshakes) for handshakes in self._unproven.values())

    def connect(self, channel: WorkspaceChannel | None) -> AgentConnection:
        """Return the protocol for a new connection. `channel`: the workspace it dialled, None on the shared address."""
        self._count += 1
        number = self._count
        self._services.metrics.count("connections")
        dialled = channel.workspace if channel else None
        handshake = Handshake(self._services, channel, number, on_finished=partial(self._remove, dialled, number))
        self._connections.add(handshake.connection)
        self._unproven.setdefault(dialled, {})[number] = handshake
        if self._closed:
            handshake.refuse("closing")
        if self.unproven > self._services.limits.unproven:
            fullest = max(self._unproven.values(), key=len)  # so that an agent displaces only connections like its own
            fullest[next(iter(fullest))].refuse("too_many_unproven")
        return handshake.connection

    def _remove(self, dialled: str | None, number: int) -> None:
        """Count the connection no more, because it is attached, refused or lost."""
        handshakes = self._unproven.get(dialled, {})
        handshakes.pop(number, None)
        if not handshakes:
            self._unproven.pop(dialled, None)

    def close(self) -> None:
        """Refuse all unproven connections, and every new one."""
        self._closed = True
        for handshake in [one for handshakes in self._unproven.values() for one in handshakes.values()]:
            handshake.refuse("closing")

    async def abort_all(self) -> None:
        """Abort all connections."""
        for connection in tuple(self._connections):
            connection.abort("closing")
        for _ in range(3):  # the event loop calls `connection_lost` in a later iteration
            await asyncio.sleep(0)
