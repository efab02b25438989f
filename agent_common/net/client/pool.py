"""A minimal HTTP client for one base URL with keep-alive connections, for the hot path.

Redirects, cookies, URL joining and authentication flows took a fifth of a turn's time, and the mesh needs none of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass

from ..endpoints.connect import CONNECT_SECONDS, connect
from ..endpoints.endpoint import parse_http_url
from .connection import HttpConnection, TransportFault
from .tls import public_tls

MAX_IDLE_CONNECTIONS = 64
IDLE_SECONDS = 30.0
MAX_BODY_BYTES = 4 * 1024 * 1024
"""Most bytes of a body that is read as a whole."""


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """The head of an answer, and its body as a stream."""

    status: int
    headers: Mapping[str, str]
    """Headers, with lower-case names."""
    pieces: AsyncIterator[bytes]

    async def body(self, limit: int = MAX_BODY_BYTES) -> bytes:
        """Read the body, at most about `limit` bytes of it."""
        held = bytearray()
        async for piece in self.pieces:
            held += piece
            if len(held) >= limit:
                break
        return bytes(held)


@dataclass(frozen=True, slots=True)
class SizedStream:
    """The body of a request, sent as it comes."""

    size: int
    """Bytes of all pieces together."""
    pieces: AsyncIterator[bytes]


class HttpPool:
    """Sends requests to one base URL over TCP, with or without TLS, a unix socket or vsock. Times are in seconds."""

    def __init__(
        self,
        url: str,
        headers: Mapping[str, str],
        *,
        read_timeout: float,
        connect_timeout: float = CONNECT_SECONDS,
        first_timeout: float | None = None,
    ) -> None:
        """`first_timeout`: the longest time before the first byte of a head and of a body; None: `read_timeout`.

        Raises ValueError if `url` is not a base URL."""
        base = parse_http_url(url)
        self._endpoint = base.endpoint
        self._path = base.path
        self._tls = public_tls() if base.tls else None
        named = {"host": base.host, **headers}
        self._head = _header_lines(named)
        self._idle_seconds = read_timeout
        self._connect_seconds = connect_timeout
        self._first_seconds = read_timeout if first_timeout is None else first_timeout
        self._idle: list[HttpConnection] = []

    def request(
        self,
        method: str,
        path: str,
        body: bytes | SizedStream | None = None,
        *,
        headers: Mapping[str, str] | None = None,
        read_timeout: float | None = None,
    ) -> AbstractAsyncContextManager[HttpResponse]:
        """Send a request. Leaving the block before the end of the body closes the connection. Raises TransportFault.

        `headers`: beside those of the pool. `read_timeout`: where it is longer than the pool's, both timeouts are
        longer by that factor.
        """
        factor = max(1.0, (read_timeout or 0.0) / self._idle_seconds)
        stream = body if isinstance(body, SizedStream) else None
        whole = b"" if body is None or isinstance(body, SizedStream) else body
        size = stream.size if stream else len(whole)
        length = b"" if body is None else b"content-length: %d\r\n" % size
        more = _header_lines(headers) if headers else b""
        head = f"{method} {self._path}{path} HTTP/1.1\r\n".encode("ascii") + self._head + more + length + b"\r\n"
        times = self._idle_seconds * factor, self._first_seconds * factor
        return self.request_raw(head + whole, *times, stream=stream)

    @asynccontextmanager
    async def request_raw(
        self,
        request: bytes,
        read_timeout: float,
        first_timeout: float | None = None,
        *,
        stream: SizedStream | None = None,
    ) -> AsyncGenerator[HttpResponse]:
        """Send a serialized request. `read_timeout`: the longest time without a byte; `first_timeout`: the same before
        the first byte. `stream`: the body, if `request` is only the head. Otherwise like `request`."""
        connection = self._pop_idle() or await self._connect()
        first = read_timeout if first_timeout is None else first_timeout
        try:
            if stream is None:
                await connection.send(request, first)
            else:
                await connection.send_stream(request, stream.pieces, first)
            yield HttpResponse(connection.status, connection.headers, _pieces(connection, read_timeout, first))
        finally:
            self._release(connection)

    async def close(self) -> None:
        for connection in self._idle:
            connection.close()
        self._idle.clear()

    def _pop_idle(self) -> HttpConnection | None:
        """Return the connection that was used last, or None if all are too old or closed by the server."""
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


async def _pieces(connection: HttpConnection, idle: float, first: float) -> AsyncIterator[bytes]:
    try:
        data = await connection.read(first)
    except TransportFault as fault:
        fault.before_body = True
        raise
    while data:
        yield data
        data = await connection.read(idle)


def _header_lines(headers: Mapping[str, str]) -> bytes:
    return "".join(f"{name}: {value}\r\n" for name, value in headers.items()).encode("latin-1")
