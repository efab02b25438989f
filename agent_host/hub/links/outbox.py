"""Frames on their way to the client of a socket."""

from __future__ import annotations

import asyncio
from collections import deque

from agent_common.net import ShareCounter
from agent_common.protocol.hub import Frame, encode_frame

FULL = 1 << 20
"""Bytes that wait, from which on deliveries and reads wait with them."""
MOST = 32 << 20
"""Bytes that wait, from which on the client is given up: it asks and does not read the answers."""
_OVERHEAD = 200
"""Bytes of memory that a frame takes besides its text."""


class Outbox:
    """Holds frames until they are sent. It never makes who sends wait, but says whether it should."""

    def __init__(self, held: ShareCounter | None = None, holder: str = "") -> None:
        """`held`: counts the bytes of this and other links, by their holders."""
        self._held = held or ShareCounter(2 * MOST)
        self._holder = holder
        self._frames: deque[bytes] = deque()
        self._size = 0
        self._is_closed = self._is_refused = False
        self._changed = asyncio.Event()
        self._space = asyncio.Event()
        self._space.set()

    @property
    def has_space(self) -> bool:
        """Whether the client keeps up."""
        return self._space.is_set()

    @property
    def is_given_up(self) -> bool:
        """Whether too much waits, here or on all links of its holder."""
        return self._is_refused or self._size > MOST

    def put(self, frame: Frame) -> None:
        """Have a frame sent. None is taken once the outbox is closed, or its client is given up."""
        if self._is_closed or self.is_given_up:
            return
        data = encode_frame(frame)
        size = len(data) + _OVERHEAD
        if not self._held.acquire(self._holder, size):
            self._is_refused = True
            self._changed.set()
            return
        self._frames.append(data)
        self._size += size
        if self._size > FULL:
            self._space.clear()
        self._changed.set()

    async def take(self) -> bytes | None:
        """The next frame, once there is one; None once the client is given up."""
        while not self._frames and not self.is_given_up:
            self._changed.clear()
            await self._changed.wait()
        return None if self.is_given_up else self._frames[0]

    def sent(self) -> bool:
        """The frame that `take` gave is sent. Returns whether there is space again by that."""
        if self._is_closed:
            return False
        size = len(self._frames.popleft()) + _OVERHEAD
        self._size -= size
        self._held.release(self._holder, size)
        if self._size > FULL // 2 or self._space.is_set():
            return False
        self._space.set()
        return True

    async def drained(self) -> None:
        """Return once there is space, or the outbox is closed."""
        await self._space.wait()

    def close(self) -> None:
        """Take nothing more, give back what waits, and let go of who waits."""
        if not self._is_closed:
            self._held.release(self._holder, self._size)
        self._is_closed = True
        self._space.set()
