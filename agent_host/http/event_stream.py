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

    def __init__(self, events: AsyncIterator[bytes]) -> None:
        super().__init__(events, headers=_HEADERS)

    async def stream_response(self, send: Send) -> None:
        async def in_time(message: Message) -> None:
            async with asyncio.timeout(STALL_SECONDS):
                await send(message)

        try:
            await super().stream_response(in_time)
        except TimeoutError:
            return
