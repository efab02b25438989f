"""Live turns: all chunks of a turn so far, kept once, for any number of readers at any pace.

A reader holds only a position in the shared log and reads bounded pieces, so a slow reader delays no other and costs no
more memory than one piece.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable

from agent_common.protocol.chunks import DONE, Chunk, ReasoningDelta, TextDelta, ToolApprovalRequest, ToolInputDelta

HEARTBEAT_SECONDS = 15.0
HEARTBEAT = b": keep-alive\n\n"
PIECE_BYTES = 64 * 1024
EVENT_BYTES = 41
"""What an event takes beside its bytes."""
JOIN_FROM = 1024 * 1024
"""Bytes of a stream from which on deltas are joined; a shorter one has its model's pieces as they came."""
JOINED_BYTES = 4096
"""Up to which deltas that nobody has read yet are joined into one event."""
_DELTA = b'elta":"'
"""Behind this a delta's event has the text, then the end: the quotes of a text in it are escaped."""
_DELTA_END = b'"}\n\n'


_DELTAS = (TextDelta, ReasoningDelta, ToolInputDelta)


class StreamInterrupted(Exception):
    """Raised to readers when this process ends before the turn does; the next process continues it."""


class TurnStream:
    """The stream of one turn as server-sent events."""

    def __init__(self) -> None:
        self._log: list[bytes] = []
        self.size = 0
        """Bytes of memory of the log."""
        self._read = 0
        """Events that a reader may have, which do not change."""
        self._approval_requests: dict[str, int] = {}
        """Position in the log of each open approval request, by call id."""
        self._closed = self._interrupted = False
        self._waiting_ending: bytes | None = None
        """While the turn waits for a person: the last bytes for readers that do not wait with it."""
        self.resume_position = 0
        """Length of the log when the turn last began to wait."""
        self._redirect: tuple[TurnStream, int, Chunk | None] | None = None
        self._waiters: list[asyncio.Future[bool]] = []

    def publish(self, chunk: Chunk) -> None:
        if isinstance(chunk, ToolApprovalRequest):
            self._approval_requests[chunk.toolCallId] = len(self._log)
        event = chunk.to_sse()
        if not (self.size > JOIN_FROM and isinstance(chunk, _DELTAS) and self._join(event)):
            self._log.append(event)
            self.size += len(event) + EVENT_BYTES
        if self._waiters:
            self._wake()

    def _join(self, event: bytes) -> bool:
        """Append a delta to the last event, if that is one of the same text and nobody has read it."""
        head, mark, text = event.partition(_DELTA)
        last = self._log[-1] if len(self._log) > self._read else b""
        if not last.startswith(head + mark) or len(last) + len(text) > JOINED_BYTES:
            return False
        self._log[-1] = last.removesuffix(_DELTA_END) + text
        self.size += len(text) - len(_DELTA_END)
        return True

    def drop_approval_request(self, call_id: str) -> None:
        """Remove an approval request from the log once it has been granted. No chunk takes a request back, so a page
        that connects later would ask again while the call runs."""
        if (at := self._approval_requests.pop(call_id, None)) is not None:
            self._log[at] = b""

    def close(self) -> None:
        """End the stream with its terminator."""
        if not self._closed:
            self._closed = True
            self._log.append(DONE)
            self._wake()

    def interrupt(self) -> None:
        """Cut off the readers, because this process ends before the turn, and not as if the turn had ended."""
        if not self._closed:
            self._closed = self._interrupted = True
            self._wake()

    def pause(self, ending: Iterable[Chunk]) -> None:
        """Let the turn wait for a person. Readers that do not wait with it receive `ending` and the terminator."""
        self._waiting_ending = b"".join([*(chunk.to_sse() for chunk in ending), DONE])
        self.set_resume_position()
        self._wake()

    def set_resume_position(self) -> None:
        """Mark all chunks so far as known to the person who answers."""
        self.resume_position = self._read = len(self._log)

    def resume(self) -> None:
        """End the wait of the turn."""
        self._waiting_ending = None

    def continue_as(self, other: TurnStream, *, since: int = 0, first_chunk: Chunk | None = None) -> None:
        """Continue this stream with another turn's, because the message has joined that turn. For `since` and
        `first_chunk` see `follow`."""
        if not self._closed:
            self._closed = True
            self._redirect = (other, since, first_chunk)
            self._wake()

    async def follow(
        self, *, through_waits: bool = True, since: int = 0, first_chunk: Chunk | None = None
    ) -> AsyncIterator[bytes]:
        """Yield all chunks so far, then new ones until the end. Queued chunks are joined into one piece. During a long
        silence a comment is sent as a heartbeat, so that no proxy drops the connection.

        With `through_waits`, the reader stays connected while the turn waits for a person. A reader that knows the log
        up to `since` receives `first_chunk`, a new beginning, and then only later chunks. Raises StreamInterrupted if
        this process ends before the turn.
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
        """Return as many events as fit into a piece, at least one, and the position after them."""
        size = 0
        end = start
        while end < len(self._log) and (size == 0 or size + len(self._log[end]) <= PIECE_BYTES):
            size += len(self._log[end])
            end += 1
        self._read = max(self._read, end)
        return b"".join(self._log[start:end]), end

    async def _wait_for_chunk(self) -> bool:
        """Wait for the next chunk. Returns False if a heartbeat is due first."""
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
        waiters = self._waiters
        self._waiters = []
        for waiter in waiters:
            _resolve(waiter, True)


def _resolve(waiter: asyncio.Future[bool], news: bool) -> None:
    if not waiter.done():
        waiter.set_result(news)
