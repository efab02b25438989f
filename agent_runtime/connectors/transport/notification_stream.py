"""The stream of a remote server's notifications, which the package opens with GET and gives up after two errors.

So an error of a stream that was open is made to look like its end, after which the package opens it again. And one that
cannot be opened for now, while a gateway has no server to pass it to, is asked for until it can.

Imported only when a remote server is used, because it needs packages that load slowly.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from http import HTTPStatus
from itertools import chain, repeat

import httpcore2
import httpx2

from .connection_state import ConnectionState

PAUSES = (1.0, 2.0, 5.0, 15.0, 60.0)
"""Seconds between two attempts to open it; the last one repeats."""
_FOR_NOW = frozenset(
    {
        HTTPStatus.TOO_MANY_REQUESTS,
        HTTPStatus.BAD_GATEWAY,
        HTTPStatus.SERVICE_UNAVAILABLE,
        HTTPStatus.GATEWAY_TIMEOUT,
    }
)
"""Statuses that say nothing about whether the server has such a stream."""
_BREAKS = (httpcore2.NetworkError, httpcore2.ProtocolError, httpcore2.TimeoutException, httpx2.SSEError)
RESUMED_HEADER = "last-event-id"

Send = Callable[[httpx2.Request], Awaitable[httpx2.Response]]


class NotificationStream:
    """The streams of one session, one after another. `connection_state` is told when one is open after a gap."""

    def __init__(self, connection_state: ConnectionState) -> None:
        self._connection_state = connection_state
        self._gap = False
        self._task: asyncio.Task[object] | None = None
        """The package's task that opens these streams. It resumes the answers to calls by GET in others."""

    def is_meant(self, request: httpx2.Request) -> bool:
        """Return whether the request opens the stream of notifications, not the rest of an answer to a call."""
        if request.method != "GET":
            return False
        return RESUMED_HEADER not in request.headers or asyncio.current_task() is self._task

    async def open(self, request: httpx2.Request, send: Send) -> httpx2.Response:
        """Return the answer to the request, once the server can be reached."""
        self._task = asyncio.current_task()
        answer = await self._answer(request, send)
        if not answer.is_success:
            return answer
        if self._gap:
            self._gap = False
            self._connection_state.note_gap()
        assert isinstance(answer.stream, httpx2.AsyncByteStream)  # noqa: S101
        body = _WithoutBreak(answer.stream, self._note_break)
        return httpx2.Response(answer.status_code, headers=answer.headers, stream=body)

    async def _answer(self, request: httpx2.Request, send: Send) -> httpx2.Response:
        pauses = chain(PAUSES, repeat(PAUSES[-1]))
        while True:
            try:
                answer = await send(request)
            except httpx2.TransportError:
                pass
            else:
                if answer.status_code not in _FOR_NOW:
                    return answer
                await answer.aclose()
            self._note_break()
            await asyncio.sleep(next(pauses))

    def _note_break(self) -> None:
        self._gap = True


class _WithoutBreak(httpx2.AsyncByteStream):
    """A body that ends where it breaks, or where nothing has come for too long."""

    def __init__(self, body: httpx2.AsyncByteStream, on_break: Callable[[], None]) -> None:
        self._body = body
        self._on_break = on_break

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for piece in self._body:
                yield piece
        except _BREAKS:
            self._on_break()

    async def aclose(self) -> None:
        await self._body.aclose()
