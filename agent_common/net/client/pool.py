"""Plain HTTP to one base URL over kept-alive connections: what the hot path needs of a client, and no more.

Redirects, cookies, URL joining and authentication flows cost a fifth of a turn, and the mesh wants none of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass

from ..endpoints.connect import CONNECT_SECONDS, connect
from ..endpoints.endpoint import parse_http_url
from .connection import HttpConnection, TransportFault
from .tls import public_tls

MAX_IDLE_CONNECTIONS = 64
IDLE_SECONDS = 30.0
MAX_BODY_BYTES = 4 * 1024 * 1024
"""Bytes of a body that is read as a whole."""


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """The head of an answer, and its body as it comes."""

    status: int
    headers: Mapping[str, str]
    """Names in lower case."""
    pieces: AsyncIterator[bytes]

    async def body(self, limit: int = MAX_BODY_BYTES) -> bytes:
        """The body, or its first `most` bytes and a little."""
        held = bytearray()
        async for piece in self.pieces:
            held += piece
            if len(held) >= limit:
                break
        return bytes(held)


class HttpPool:
    """Requests to one base URL: over TCP, with TLS or without, a unix socket or vsock. Times are seconds."""

    def __init__(
        self, url: str, headers: Mapping[str, str], *, read_timeout: float, connect_timeout: float = CONNECT_SECONDS
    ) -> None:
        """Raises ValueError for what is no base URL."""
        base = parse_http_url(url)
        self._endpoint, self._path = base.endpoint, base.path
        self._tls = public_tls() if base.tls else None
        named = {"host": base.host, **headers}
        self._head = "".join(f"{name}: {value}\r\n" for name, value in named.items()).encode("latin-1")
        self._idle_seconds, self._connect_seconds = read_timeout, connect_timeout
        self._idle: list[HttpConnection] = []

    @asynccontextmanager
    async def request(self, method: str, path: str, body: bytes | None = None) -> AsyncGenerator[HttpResponse]:
        """One request; leaving the block before the end of the body hangs up. Raises TransportFault."""
        length = b"" if body is None else b"content-length: %d\r\n" % len(body)
        head = f"{method} {self._path}{path} HTTP/1.1\r\n".encode("ascii") + self._head + length + b"\r\n"
        async with self.request_raw(head + (body or b""), self._idle_seconds) as reply:
            yield reply

    @asynccontextmanager
    async def request_raw(self, request: bytes, read_timeout: float) -> AsyncGenerator[HttpResponse]:
        """As `request`, with a head of the caller's own and the seconds that may pass without a byte."""
        connection = self._pop_idle() or await self._connect()
        try:
            await connection.send(request, read_timeout)
            yield HttpResponse(connection.status, connection.headers, _pieces(connection, read_timeout))
        finally:
            self._release(connection)

    async def close(self) -> None:
        for connection in self._idle:
            connection.close()
        self._idle.clear()

    def _pop_idle(self) -> HttpConnection | None:
        """The connection that was used last, unless it is too old or the server has hung up meanwhile."""
        now = asyncio.get_running_loop().time()
        while self._idle:
            connection = self._idle.pop()
            if connection.reusable and now - connection.idle_since < IDLE_SECONDS:
                return connection
            connection.close()
        return None

    def _release(self, connection: HttpConnection) -> None:
        if connection.reusable and len(self._idle) < MAX_IDLE_CONNECTIONS:
            connection.idle_since = asyncio.get_running_loop().time()
            self._idle.append(connection)
        else:
            connection.close()

    async def _connect(self) -> HttpConnection:
        try:
            return (await connect(HttpConnection, self._endpoint, self._connect_seconds, tls=self._tls))[1]
        except TimeoutError as error:
            raise TransportFault(f"no connection within {self._connect_seconds:g} s") from error
        except OSError as error:
            raise TransportFault(error.strerror or str(error) or type(error).__name__) from error


async def _pieces(connection: HttpConnection, idle: float) -> AsyncIterator[bytes]:
    while data := await connection.read(idle):
        yield data
