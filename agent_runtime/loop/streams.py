"""Live turns: everything a turn has said so far, kept once, for any number of readers at any pace.

A reader holds nothing but a position in the shared log, so a slow one delays nobody and costs no memory of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from ..protocol.chunks import DONE, Chunk

SILENCE_SECONDS = 15.0
HEARTBEAT = b": keep-alive\n\n"


class LiveTurn:
    """The stream of one turn as server-sent events."""

    def __init__(self) -> None:
        self._log: list[bytes] = []
        self._closed = False
        self._waiters: list[asyncio.Future[bool]] = []

    def publish(self, chunk: Chunk) -> None:
        self._log.append(chunk.event())
        self._wake()

    def close(self) -> None:
        """Ends the stream with its terminator."""
        if not self._closed:
            self._closed = True
            self._log.append(DONE)
            self._wake()

    async def follow(self) -> AsyncIterator[bytes]:
        """Replays from the first chunk, then goes on live until the end. Chunks that wait together come as one;
        a comment fills each long silence, so that nobody on the way takes the connection for dead."""
        seen = 0
        while True:
            if seen < len(self._log):
                fresh = self._log[seen:]
                seen += len(fresh)
                yield b"".join(fresh)
            elif self._closed:
                return
            elif not await self._news():
                yield HEARTBEAT

    async def _news(self) -> bool:
        """Waits for the next chunk, or long enough for a heartbeat."""
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[bool] = loop.create_future()
        self._waiters.append(waiter)
        alarm = loop.call_later(SILENCE_SECONDS, _tell, waiter, False)
        try:
            return await waiter
        finally:
            alarm.cancel()

    def _wake(self) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            _tell(waiter, True)


def _tell(waiter: asyncio.Future[bool], news: bool) -> None:
    if not waiter.done():
        waiter.set_result(news)
