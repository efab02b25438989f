"""One connection: sends and receives frames within limits, without interpreting them."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from functools import partial
from typing import NamedTuple

from pydantic import BaseModel

from agent_common.json_reader import INLINE_BYTES, run_by_size
from agent_common.net import Endpoint, open_endpoint
from agent_common.protocol import is_object
from agent_common.protocol.work import MAX_BAD_LINES, FrameFault, FrameTooLarge, Lines, decode, encode, to_loose
from agent_common.redaction import Redactor
from agent_common.telemetry import logger

from ...ports import Clock
from ..redaction import redact_frame

log = logger(__name__)
PIECE = 256 * 1024
"""Bytes read or written at a time."""
LINES_PER_YIELD = 64
"""Lines of a flood after which other tasks of the loop run."""
MAX_QUEUED_FRAMES = 256
MAX_QUEUED_BYTES = 8 * 1024 * 1024
STALL_SECONDS = 30.0
"""Seconds without progress after which a peer that does not read is considered gone."""
MINUTE = 60.0


class ChannelLost(Exception):
    """Raised when the connection has ended; the text says why."""


class _Line(NamedTuple):
    data: bytes
    droppable: bool


class FrameConnection:
    """A connection with its own writer task, so that frames are sent in order."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        clock: Clock,
        *,
        max_line: int,
        redactor: Redactor | None = None,
        loose: bool = False,
    ) -> None:
        """`max_line`: bytes of the longest line, of the peer's and, until it sets another limit, of ours. `loose`:
        write frames in the loose dialect."""
        self._reader = reader
        self._writer = writer
        self._clock = clock
        self._loose = loose
        self._lines = Lines(max_line)
        self._bad: deque[float] = deque(maxlen=MAX_BAD_LINES + 1)
        self._queue: deque[_Line] = deque()
        self._queued = 0
        self._news = asyncio.Event()
        self._empty = asyncio.Event()
        self._empty.set()
        self._task = asyncio.create_task(self._write(), name="mediation writer")
        self.break_reason: str | None = None
        """Why no more can be sent; None while it can."""
        self.last_received_at = clock.monotonic()
        """Monotonic time of the last input."""
        self.max_line = max_line
        """Bytes of the longest line that the peer accepts."""
        self.redactor = redactor or Redactor()
        """Removes secrets from the frames that are sent."""

    @classmethod
    async def open(
        cls, endpoint: Endpoint, clock: Clock, *, max_line: int, seconds: float, redactor: Redactor, loose: bool
    ) -> FrameConnection:
        """Connect. Raises OSError."""
        return cls(*await open_endpoint(endpoint, seconds), clock, max_line=max_line, redactor=redactor, loose=loose)

    def send(self, frame: BaseModel, *, droppable: bool = False) -> None:
        """Queue the frame. A droppable one is dropped if the peer reads too slowly; for any other one the connection is
        then aborted: its content is in the ledger, and is sent on the next connection."""
        if self.break_reason is not None:
            return
        frame = redact_frame(frame, self.redactor)
        data = encode(to_loose(frame) if self._loose else frame)
        if droppable and len(data) > self.max_line:
            return
        if len(self._queue) >= MAX_QUEUED_FRAMES or self._queued + len(data) > MAX_QUEUED_BYTES:
            self._drop_some()
            if len(self._queue) >= MAX_QUEUED_FRAMES or (self._queue and self._queued + len(data) > MAX_QUEUED_BYTES):
                if not droppable:
                    self.abort("the host reads too slowly")
                return
        self._queue.append(_Line(data, droppable))
        self._queued += len(data)
        self._empty.clear()
        self._news.set()

    async def flush(self) -> None:
        """Return once everything was passed to the system, or the connection has ended."""
        await self._empty.wait()

    async def frames(self) -> AsyncIterator[dict[str, object] | FrameFault]:
        """Yield the JSON objects received, and faults for lines that contain none, until the connection ends. Raises
        ChannelLost if the peer breaks the rules."""
        while True:
            try:
                data = await self._reader.read(PIECE)
            except OSError as error:
                raise ChannelLost(f"reading failed: {error.strerror or error}") from error
            if not data:
                return
            self.last_received_at = self._clock.monotonic()
            try:
                for number, line in enumerate(self._lines.feed(data)):
                    if number % LINES_PER_YIELD == LINES_PER_YIELD - 1:
                        await asyncio.sleep(0)
                    if isinstance(line, bytes) and len(line) > INLINE_BYTES:
                        yield await run_by_size(len(line), partial(self._read, line))
                    else:
                        yield self._read(line)
            except FrameTooLarge as error:
                raise ChannelLost(str(error)) from error

    def abort(self, why: str) -> None:
        """End the connection at once."""
        if self.break_reason is None:
            self.break_reason = why
        transport = self._writer.transport
        if transport is not None:  # pyright: ignore[reportUnnecessaryComparison]  uvloop has none once it is closed
            transport.abort()
        self._empty.set()
        self._news.set()

    async def close(self) -> None:
        """Close the connection; unsent frames are lost."""
        self.abort("closed")
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    def count_fault(self, fault: FrameFault) -> None:
        """Count an invalid frame. Raises ChannelLost if there are too many."""
        now = self._clock.monotonic()
        self._bad.append(now)
        log.warning("a line on the channel is not a valid frame", code=fault.code, error=str(fault))
        if len(self._bad) > MAX_BAD_LINES and now - self._bad[0] < MINUTE:
            raise ChannelLost(f"more than {MAX_BAD_LINES} bad lines in a minute; the last: {fault}")

    def _read(self, line: bytes | FrameFault) -> dict[str, object] | FrameFault:
        if isinstance(line, FrameFault):
            return line
        try:
            value = decode(line)
        except FrameFault as fault:
            return fault
        assert is_object(value)  # noqa: S101
        return value

    def _drop_some(self) -> None:
        kept = [line for line in self._queue if not line.droppable]
        self._queue = deque(kept)
        self._queued = sum(len(line.data) for line in kept)

    async def _write(self) -> None:
        try:
            while True:
                await self._news.wait()
                self._news.clear()
                while self._queue:
                    lines = self._queue
                    self._queue = deque()
                    self._queued = 0
                    await self._out(memoryview(b"".join(line.data for line in lines)))
                self._empty.set()
        except TimeoutError:
            self.abort("the host does not read")
        except OSError as error:
            self.abort(f"writing failed: {error.strerror or error}")

    async def _out(self, data: memoryview) -> None:
        """Write in pieces, so that a slow host is not taken for one that does not read. Raises TimeoutError."""
        for begin in range(0, len(data), PIECE):
            self._writer.write(data[begin : begin + PIECE])
            async with asyncio.timeout(STALL_SECONDS):
                await self._writer.drain()
