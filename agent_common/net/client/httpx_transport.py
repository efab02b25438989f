"""A transport for clients that use httpx, such as `openai`, over the same pool as the hot path.

httpx itself supports TCP and unix sockets but not vsock, so this one transport is used for all of them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import httpx

from ..endpoints.connect import CONNECT_SECONDS
from ..endpoints.endpoint import Tcp, parse_http_url
from .connection import TransportFault
from .pool import HttpPool, HttpResponse

IDLE_SECONDS = 120.0
_FRAMING = frozenset({b"content-length", b"transfer-encoding"})


class HttpxTransport(httpx.AsyncBaseTransport):
    """Sends requests to one base URL. A request's read timeout is the longest time without a byte."""

    def __init__(self, url: str, *, connect_timeout: float = CONNECT_SECONDS) -> None:
        base = parse_http_url(url)
        self.base_url = url.rstrip("/") if isinstance(base.endpoint, Tcp) else f"http://localhost{base.path}"
        """The base URL for requests through this transport."""
        self._origin = _origin(httpx.URL(self.base_url))
        self._pool = HttpPool(url, {}, read_timeout=IDLE_SECONDS, connect_timeout=connect_timeout)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if _origin(request.url) != self._origin:
            raise httpx.UnsupportedProtocol(f"this client sends requests only to {self.base_url}", request=request)
        timeout: dict[str, Any] = request.extensions.get("timeout") or {}
        idle = timeout.get("read") or IDLE_SECONDS
        async with AsyncExitStack() as stack:
            try:
                reply = await stack.enter_async_context(self._pool.request_raw(await _serialize_request(request), idle))
            except TransportFault as fault:
                raise _as_httpx(fault, request) from fault
            body = _Body(reply, stack.pop_all(), request)
        return httpx.Response(reply.status, headers=dict(reply.headers), stream=body)

    async def aclose(self) -> None:
        await self._pool.close()


class _Body(httpx.AsyncByteStream):
    def __init__(self, reply: HttpResponse, held: AsyncExitStack, request: httpx.Request) -> None:
        self._reply, self._held, self._request = reply, held, request

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for piece in self._reply.pieces:
                yield piece
        except TransportFault as fault:
            raise _as_httpx(fault, self._request) from fault

    async def aclose(self) -> None:
        await self._held.aclose()


async def _serialize_request(request: httpx.Request) -> bytes:
    """Return the bytes of the request, with its whole body."""
    body = await request.aread()
    lines = [b"%s: %s\r\n" % (name, value) for name, value in request.headers.raw if name.lower() not in _FRAMING]
    if body or request.method in ("POST", "PUT", "PATCH"):
        lines.append(b"content-length: %d\r\n" % len(body))
    start = b"%s %s HTTP/1.1\r\n" % (request.method.encode("ascii"), request.url.raw_path)
    return b"".join((start, *lines, b"\r\n", body))


def _origin(url: httpx.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port


def _as_httpx(fault: TransportFault, request: httpx.Request) -> httpx.TransportError:
    kind = httpx.ReadTimeout if fault.timed_out else httpx.NetworkError
    return kind(fault.message, request=request)
