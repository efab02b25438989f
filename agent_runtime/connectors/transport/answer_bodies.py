"""Bodies of a server's answers: decompressed, bounded, and mended where servers commonly slip."""

from __future__ import annotations

from codecs import BOM_UTF8
from collections.abc import AsyncIterator
from functools import partial

import httpcore2
import httpx2

from agent_common.json_reader import run_by_size
from agent_common.net import Inflater

from ...errors import ToolFailure
from ..rate_limit import MESSAGE_LIMIT, LimitExceeded, MessageRateLimiter, check_nodes
from .event_limits import EventCheck
from .mended_messages import LineBuffer, RequestId, is_whole, mend_events, mend_message

JSON_DOCUMENT = "application/json"
EVENT_STREAM = "text/event-stream"
MAX_BLANKS = 4096
"""Most bytes that are read until the first that is not blank."""
_JSON_SIGNS = (b"{", b"[")
_EVENT_FIELDS = (b"data:", b"event:", b"id:", b"retry:", b":")
_FIELD_LENGTH = max(map(len, _EVENT_FIELDS))


class Decoded:
    """The decompressed body of an answer, in small pieces, so that whoever reads it can stop at a limit."""

    def __init__(self, answer: httpcore2.Response, inflater: Inflater) -> None:
        self._answer = answer
        self._inflater = inflater
        self._pieces = self._decompress()
        self._begin = b""
        self._fault: Exception | None = None

    async def content_type(self, label: str) -> str:
        """Return what the body is by its first bytes, or else by its label. Blanks and a byte order mark before them
        are dropped. What fails meanwhile fails when the body is read."""
        size = 0
        try:
            async for piece in self._pieces:
                size += len(piece)
                self._begin = (self._begin + piece).removeprefix(BOM_UTF8).lstrip()
                if self._begin.startswith(_JSON_SIGNS) or len(self._begin) >= _FIELD_LENGTH or size > MAX_BLANKS:
                    break
        except Exception as fault:  # noqa: BLE001  any error is raised again by the iteration
            self._fault = fault
        except BaseException:
            await self.aclose()
            raise
        if self._begin.startswith(_JSON_SIGNS):
            return JSON_DOCUMENT
        return EVENT_STREAM if self._begin.startswith(_EVENT_FIELDS) else label

    async def __aiter__(self) -> AsyncIterator[bytes]:
        if self._begin:
            yield self._begin
        if self._fault is not None:
            raise self._fault
        async for piece in self._pieces:
            yield piece

    async def _decompress(self) -> AsyncIterator[bytes]:
        try:
            async for piece in self._answer.aiter_stream():
                for part in self._inflater.pieces(piece):
                    yield part
            self._inflater.finish()
        except ToolFailure as failure:
            raise LimitExceeded(failure.message) from None

    async def aclose(self) -> None:
        await self._answer.aclose()


class WholeBody(httpx2.AsyncByteStream):
    """A body that is read as a whole, up to the limit. `request_id`: as in `mend_message`."""

    def __init__(self, answer: Decoded, limiter: MessageRateLimiter, request_id: RequestId | None) -> None:
        self._answer = answer
        self._limiter = limiter
        self._request_id = request_id

    async def __aiter__(self) -> AsyncIterator[bytes]:
        body = bytearray()
        try:
            async for piece in self._answer:
                body += piece
                if len(body) > MESSAGE_LIMIT:
                    raise LimitExceeded(f"it is larger than the limit of {MESSAGE_LIMIT // 2**20} MiB")
            await self._limiter.throttle(len(body))
            check_nodes(bytes(body))
        except LimitExceeded as overrun:
            raise httpx2.StreamError(str(overrun)) from None
        yield await run_by_size(len(body), partial(mend_message, bytes(body), self._request_id))

    async def aclose(self) -> None:
        await self._answer.aclose()


class StreamedBody(httpx2.AsyncByteStream):
    """A body that is a stream of events, with limits on the rate and on the size of each event. `request_id`: as in
    `mend_message`."""

    def __init__(self, answer: Decoded, limiter: MessageRateLimiter, request_id: RequestId | None) -> None:
        self._answer = answer
        self._limiter = limiter
        self._request_id = request_id

    async def __aiter__(self) -> AsyncIterator[bytes]:
        check = EventCheck()
        lines = LineBuffer()
        try:
            async for piece in self._answer:
                await self._limiter.throttle(check.feed(piece))
                if whole := lines.feed(piece):
                    yield await run_by_size(len(whole), partial(mend_events, whole, self._request_id))
            end = b"\n\n" if is_whole(check.end()) else b""  # the package drops an event without it
            yield mend_events(lines.rest, self._request_id) + end
        except LimitExceeded as overrun:
            raise httpx2.SSEError(str(overrun)) from None  # the request that waits for it fails with this error

    async def aclose(self) -> None:
        await self._answer.aclose()
