"""Plain HTTP to one base URL over kept-alive connections: what the hot path needs of a client, and no more.

httpcore is the transport under httpx. A model call goes to it directly, because redirects, cookies, URL joining and
authentication flows cost a fifth of a turn and the mesh wants none of them.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

import httpcore

from ..errors import AgentRuntimeError
from .dial import Dialer
from .http import UNIX_SCHEME

MOST_IDLE = 64
IDLE_SECONDS = 30.0
MOST_BODY = 4 * 1024 * 1024
CONNECT_SECONDS = 10.0


class TransportFault(AgentRuntimeError):
    """The connection failed."""

    def __init__(self, message: str, *, silent: bool = False) -> None:
        super().__init__(message)
        self.silent = silent
        """It stands, but nothing came over it in time."""


@dataclass(frozen=True, slots=True)
class Reply:
    """The head of an answer, and its body as it comes."""

    status: int
    headers: Mapping[str, str]
    """Names in lower case."""
    pieces: AsyncIterator[bytes]

    async def body(self, most: int = MOST_BODY) -> bytes:
        """The body, or its first `most` bytes and a little."""
        held = bytearray()
        async for piece in self.pieces:
            held += piece
            if len(held) >= most:
                break
        return bytes(held)


class HttpPool:
    """Requests to one base URL: `http://`, `https://` or `http+unix://`. Times are seconds."""

    def __init__(self, url: str, headers: Mapping[str, str], *, idle: float, connect: float = CONNECT_SECONDS) -> None:
        parts = urlsplit(url)
        unix = unquote(parts.netloc) if parts.scheme == UNIX_SCHEME else None
        self._base = f"http://localhost{parts.path}".rstrip("/") if unix else url.rstrip("/")
        self._headers = [(name.encode(), value.encode()) for name, value in headers.items()]
        self._extensions = {"timeout": {"connect": connect, "pool": connect, "read": idle, "write": idle}}
        self._pool = httpcore.AsyncConnectionPool(
            max_connections=None,
            max_keepalive_connections=MOST_IDLE,
            keepalive_expiry=IDLE_SECONDS,
            uds=unix,
            network_backend=None if parts.scheme == "https" else Dialer(),
        )

    @asynccontextmanager
    async def request(self, method: str, path: str, body: bytes | None = None) -> AsyncGenerator[Reply]:
        """One request; leaving the block before the end of the body hangs up. Raises TransportFault."""
        url = self._base + path
        try:
            async with self._pool.stream(
                method, url, headers=self._headers_of(url, body), content=body, extensions=self._extensions
            ) as response:
                headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in response.headers}
                yield Reply(response.status, headers, response.aiter_stream())
        except (httpcore.TimeoutException, httpcore.NetworkError, httpcore.ProtocolError) as error:
            silent = isinstance(error, httpcore.ReadTimeout)
            raise TransportFault(str(error) or type(error).__name__, silent=silent) from error

    async def close(self) -> None:
        await self._pool.aclose()

    def _headers_of(self, url: str, body: bytes | None) -> list[tuple[bytes, bytes]]:
        host = (b"host", urlsplit(url).netloc.encode())
        length = [] if body is None else [(b"content-length", str(len(body)).encode())]
        return [host, *self._headers, *length]
