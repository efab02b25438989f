"""Live turns: everything a turn has said so far, kept once, for any number of readers at any pace.

A reader holds nothing but a position in the shared log, and takes it in bounded pieces: a slow one delays nobody and
costs no more than the piece it is at.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable

from agent_common.protocol.chunks import DONE, Chunk, ToolApprovalRequest

HEARTBEAT_SECONDS = 15.0
HEARTBEAT = b": keep-alive\n\n"
PIECE_BYTES = 64 * 1024


class StreamInterrupted(Exception):
    """The stream ends here, the turn does not: it goes on in the next life."""


class TurnStream:
    """The stream of one turn as server-sent events."""

    def __init__(self) -> None:
        self._log: list[bytes] = []
        self._approval_requests: dict[str, int] = {}
        """Where in the log an approval is requested, by the id of its call."""
        self._closed = self._interrupted = False
        self._waiting_ending: bytes | None = None
        """While the turn waits for a person: what those are told who do not wait with it."""
        self.resume_position = 0
        """Where the log stood when the turn last began to wait."""
        self._redirect: tuple[TurnStream, int, Chunk | None] | None = None
        self._waiters: list[asyncio.Future[bool]] = []

    def publish(self, chunk: Chunk) -> None:
        if isinstance(chunk, ToolApprovalRequest):
            self._approval_requests[chunk.toolCallId] = len(self._log)
        self._log.append(chunk.to_sse())
        self._wake()

    def drop_approval_request(self, call_id: str) -> None:
        """The call has its approval. Later readers are not sent the request: no chunk takes one back, and a page would
        ask again while the call runs."""
        if (at := self._approval_requests.pop(call_id, None)) is not None:
            self._log[at] = b""

    def close(self) -> None:
        """Ends the stream with its terminator."""
        if not self._closed:
            self._closed = True
            self._log.append(DONE)
            self._wake()

    def interrupt(self) -> None:
        """This life ends before the turn does: its readers are cut off, so that nobody takes that for its end."""
        if not self._closed:
            self._closed = self._interrupted = True
            self._wake()

    def pause(self, ending: Iterable[Chunk]) -> None:
        """The turn waits for a person. Some readers wait with it; the others hear `ending` and the terminator."""
        self._waiting_ending = b"".join([*(chunk.to_sse() for chunk in ending), DONE])
        self.set_resume_position()
        self._wake()

    def set_resume_position(self) -> None:
        """What was said so far is known to whoever answers."""
        self.resume_position = len(self._log)

    def resume(self) -> None:
        """The turn waits no longer."""
        self._waiting_ending = None

    def continue_as(self, other: TurnStream, *, since: int = 0, first_chunk: Chunk | None = None) -> None:
        """What was to be heard here is heard there: the message has joined another turn. `since` and `fresh` as in
        `follow`."""
        if not self._closed:
            self._closed, self._redirect = True, (other, since, first_chunk)
            self._wake()

    async def follow(
        self, *, through_waits: bool = True, since: int = 0, first_chunk: Chunk | None = None
    ) -> AsyncIterator[bytes]:
        """Replays from the first chunk, then goes on live until the end. Chunks that wait together come as one;
        a comment fills each long silence, so that nobody on the way takes the connection for dead.

        A reader who `waits` stays while the turn waits for a person. One who knows what was said up to `since` gets
        `fresh`, a new beginning, and then only what came behind it. Raises CutOff when this life ends before the turn.
        """
        seen = since
        if first_chunk is not None:
            yield first_chunk.to_sse()
        while True:
            if seen < len(self._log):
                piece, seen = self._piece(seen)
                yield piece
            elif self._closed:
                break
            elif self._waiting_ending is not None and not through_waits:
                yield self._waiting_ending
                return
            elif not await self._wait_for_chunk():
                yield HEARTBEAT
        if self._interrupted:
            raise StreamInterrupted
        if self._redirect is not None:
            other, at, beginning = self._redirect
            async for piece in other.follow(through_waits=through_waits, since=at, first_chunk=beginning):
                yield piece

    def _piece(self, start: int) -> tuple[bytes, int]:
        """As many events as fit into a piece, at least one, and where the next one begins."""
        size, end = 0, start
        while end < len(self._log) and (size == 0 or size + len(self._log[end]) <= PIECE_BYTES):
            size += len(self._log[end])
            end += 1
        return b"".join(self._log[start:end]), end

    async def _wait_for_chunk(self) -> bool:
        """Waits for the next chunk, or long enough for a heartbeat."""
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[bool] = loop.create_future()
        self._waiters.append(waiter)
        alarm = loop.call_later(HEARTBEAT_SECONDS, _resolve, waiter, False)
        try:
            return await waiter
        finally:
            alarm.cancel()
            if waiter in self._waiters:
                self._waiters.remove(waiter)

    def _wake(self) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            _resolve(waiter, True)


def _resolve(waiter: asyncio.Future[bool], news: bool) -> None:
    if not waiter.done():
        waiter.set_result(news)
