"""Responses that are streams of server-sent events. A reader that does not keep up is disconnected."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from starlette.responses import StreamingResponse
from starlette.types import Message, Send

STALL_SECONDS = 30.0
"""Longest time in which a reader accepts nothing."""
_HEADERS = {"cache-control": "no-store", "x-accel-buffering": "no"}


class EventStream(StreamingResponse):
    """A stream that ends when the reader accepts nothing for too long."""

    media_type = "text/event-stream"

    def __init__(self, events: AsyncIterator[bytes], stall_seconds: float = STALL_SECONDS) -> None:
        super().__init__(events, headers=_HEADERS)
        self._stall_seconds = stall_seconds

    async def stream_response(self, send: Send) -> None:
        # One timer for the stream, since a deadline for each event would cost as much as sending it.
        loop = asyncio.get_running_loop()
        sending_since: float | None = None

        async def watched(message: Message) -> None:
            nonlocal sending_since
            sending_since = loop.time()
            await send(message)
            sending_since = None

        def look() -> None:
            nonlocal timer
            left = self._stall_seconds if sending_since is None else sending_since + self._stall_seconds - loop.time()
            if left <= 0:
                limit.reschedule(loop.time())
            else:
                timer = loop.call_later(left, look)

        timer = loop.call_later(self._stall_seconds, look)
        try:
            async with asyncio.timeout(None) as limit:
                await super().stream_response(watched)
        except TimeoutError:
            return
        finally:
            timer.cancel()
