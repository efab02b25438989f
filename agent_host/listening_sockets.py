"""Listening sockets of the host's servers, which can be opened and closed while a server runs.

A microVM without a network card reaches the host this way: its monitor connects to a unix socket of that workspace only
(`{uds}_8420`), which is opened before the machine starts and closed after it has ended.
"""

from __future__ import annotations

import asyncio
import socket
import weakref
from collections.abc import Callable
from contextlib import ExitStack
from typing import Protocol

from agent_common.net import Endpoint, ListeningSocket, listen_at

HANG_UP_SECONDS = 5.0
"""Time for answers in progress when their socket is closed."""
BACKLOG = 2048


class SocketServer(Protocol):
    """Accepts connections on listening sockets."""

    async def listen(self, bound: socket.socket) -> asyncio.Server:
        """Start accepting connections on a bound socket."""
        ...

    async def close_server(self, server: asyncio.Server, *, abruptly: bool = False) -> None:
        """Stop accepting, and end the connections of this socket: at once if `abruptly`, else after their answer."""
        ...


class ListeningSockets:
    """The listening sockets of one server. Calls for the same address must not overlap."""

    def __init__(self, server: SocketServer) -> None:
        self._server = server
        self._open: dict[Endpoint, tuple[ListeningSocket, asyncio.Server]] = {}

    @property
    def addresses(self) -> tuple[Endpoint, ...]:
        return tuple(self._open)

    async def open(self, endpoint: Endpoint, *, mode: int = 0o660) -> Endpoint:
        """Listen on another address, and return it with the actual port. `mode`: permissions of a unix socket's file.

        Raises OSError that names the address, with EADDRINUSE if another server listens on it.
        """
        return await self.add(await asyncio.to_thread(listen_at, endpoint, mode=mode))

    async def add(self, listening: ListeningSocket) -> Endpoint:
        """Accept connections on a socket that listens already, and take ownership of it. Returns its address."""
        with ExitStack() as undo:
            undo.enter_context(listening)
            self._open[listening.endpoint] = listening, await self._server.listen(listening.sock)
            undo.pop_all()
        return listening.endpoint

    async def close(self, endpoint: Endpoint, *, abruptly: bool = False) -> None:
        """Stop listening on the address and end its connections, after their answers or `abruptly`. Idempotent."""
        listening, server = self._open.pop(endpoint, (None, None))
        if listening is None or server is None:
            return
        listening.unlink()
        try:
            await self._server.close_server(server, abruptly=abruptly)
        finally:
            listening.close()

    def stop_listening(self) -> None:
        """Stop listening on all addresses. Connections stay open, for a server that closes them itself."""
        for listening, server in self._open.values():
            listening.unlink()
            server.close()
            listening.close()
        self._open.clear()

    async def close_all(self) -> None:
        await asyncio.gather(*(self.close(endpoint) for endpoint in self.addresses))


class UvicornConnection(Protocol):
    """The protocol object of uvicorn for one connection."""

    transport: asyncio.Transport

    def shutdown(self) -> None:
        """End the connection once its answer is complete."""
        ...


class HttpSide:
    """Accepts connections for a uvicorn app. `make` returns the protocol for a connection."""

    def __init__(self, make: Callable[[], asyncio.Protocol]) -> None:
        self._make = make
        self._connections: dict[asyncio.Server, weakref.WeakSet[asyncio.Protocol]] = {}

    async def listen(self, bound: socket.socket) -> asyncio.Server:
        connections: weakref.WeakSet[asyncio.Protocol] = weakref.WeakSet()

        def connect() -> asyncio.Protocol:
            connection = self._make()
            connections.add(connection)
            return connection

        loop = asyncio.get_running_loop()
        start = loop.create_unix_server if bound.family == socket.AF_UNIX else loop.create_server
        server = await start(connect, sock=bound, backlog=BACKLOG)
        self._connections[server] = connections
        return server

    async def close_server(self, server: asyncio.Server, *, abruptly: bool = False) -> None:
        server.close()
        connections = self._connections.pop(server)
        if abruptly:
            _abort_all(connections)
            return
        for connection in _open_connections(connections):
            connection.shutdown()
        asyncio.get_running_loop().call_later(HANG_UP_SECONDS, _abort_all, connections)


def _abort_all(connections: weakref.WeakSet[asyncio.Protocol]) -> None:
    for connection in _open_connections(connections):
        connection.transport.abort()


def _open_connections(connections: weakref.WeakSet[asyncio.Protocol]) -> list[UvicornConnection]:
    """Return the connections that are open. A protocol that is not connected yet has no transport."""
    found = [connection for connection in list(connections) if getattr(connection, "transport", None) is not None]
    return [one for one in found if not one.transport.is_closing()]  # type: ignore[attr-defined]
