"""The addresses that something of the host listens on while it runs: more can be opened and closed at any time.

That is how a microVM without a network card reaches the host: its monitor connects to a unix socket of that workspace
alone (`{uds}_8420`), which is opened before the machine starts and closed when it has ended.
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
"""What answers under way get once their door is closed."""
BACKLOG = 2048


class SocketServer(Protocol):
    """Takes the connections of sockets that listen."""

    async def listen(self, bound: socket.socket) -> asyncio.Server:
        """From now on connections are taken."""
        ...

    async def close_server(self, server: asyncio.Server, *, abruptly: bool = False) -> None:
        """None are taken any more, and those that came this way end: at once, or once their answer is complete."""
        ...


class ListeningSockets:
    """All the doors to one thing. Calls for the same address must not overlap; the caller is its owner."""

    def __init__(self, server: SocketServer) -> None:
        self._server = server
        self._open: dict[Endpoint, tuple[ListeningSocket, asyncio.Server]] = {}

    @property
    def addresses(self) -> tuple[Endpoint, ...]:
        return tuple(self._open)

    async def open(self, endpoint: Endpoint, *, mode: int = 0o660) -> Endpoint:
        """Listens there too; returns the address with the port that it got. `mode` is that of a unix socket's file.

        Raises OSError that names the address, with EADDRINUSE where somebody lives already.
        """
        return await self.add(await asyncio.to_thread(listen_at, endpoint, mode=mode))

    async def add(self, listening: ListeningSocket) -> Endpoint:
        """As `open`, for what listens already. It is ours from now on."""
        with ExitStack() as undo:
            undo.enter_context(listening)
            self._open[listening.endpoint] = listening, await self._server.listen(listening.sock)
            undo.pop_all()
        return listening.endpoint

    async def close(self, endpoint: Endpoint, *, abruptly: bool = False) -> None:
        """Takes nobody in any more, and shows out who came in there: `abruptly` in the middle of a word. Again is a
        no-op."""
        listening, server = self._open.pop(endpoint, (None, None))
        if listening is None or server is None:
            return
        listening.unlink()
        try:
            await self._server.close_server(server, abruptly=abruptly)
        finally:
            listening.close()

    def stop_listening(self) -> None:
        """Takes nobody in any more anywhere; who is in may stay. For a server that shows them out itself."""
        for listening, server in self._open.values():
            listening.unlink()
            server.close()
            listening.close()
        self._open.clear()

    async def close_all(self) -> None:
        await asyncio.gather(*(self.close(endpoint) for endpoint in self.addresses))


class UvicornConnection(Protocol):
    """What uvicorn makes of a connection."""

    transport: asyncio.Transport

    def shutdown(self) -> None:
        """Ends the connection once its answer is complete."""
        ...


class HttpSide:
    """Serves an app of uvicorn's: `make` makes the protocol of one connection."""

    def __init__(self, make: Callable[[], asyncio.Protocol]) -> None:
        self._make = make
        self._connections: dict[asyncio.Server, weakref.WeakSet[asyncio.Protocol]] = {}

    async def listen(self, bound: socket.socket) -> asyncio.Server:
        came: weakref.WeakSet[asyncio.Protocol] = weakref.WeakSet()

        def enter() -> asyncio.Protocol:
            made = self._make()
            came.add(made)
            return made

        loop = asyncio.get_running_loop()
        start = loop.create_unix_server if bound.family == socket.AF_UNIX else loop.create_server
        server = await start(enter, sock=bound, backlog=BACKLOG)
        self._connections[server] = came
        return server

    async def close_server(self, server: asyncio.Server, *, abruptly: bool = False) -> None:
        server.close()
        came = self._connections.pop(server)
        if abruptly:
            _abort_all(came)
            return
        for connection in _open_connections(came):
            connection.shutdown()
        asyncio.get_running_loop().call_later(HANG_UP_SECONDS, _abort_all, came)


def _abort_all(connections: weakref.WeakSet[asyncio.Protocol]) -> None:
    for connection in _open_connections(connections):
        connection.transport.abort()


def _open_connections(connections: weakref.WeakSet[asyncio.Protocol]) -> list[UvicornConnection]:
    """Connections that still stand; one that nobody has connected yet has no transport."""
    found = [connection for connection in list(connections) if getattr(connection, "transport", None) is not None]
    return [one for one in found if not one.transport.is_closing()]  # type: ignore[attr-defined]
