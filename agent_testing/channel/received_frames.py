"""The frames that have come over a connection, and waits for them, each with a deadline."""

from __future__ import annotations

import asyncio
import contextlib

from .frames import Frame, FrameTest, brief


class ExpectationFailed(AssertionError):
    """A frame that must come did not come; the text says what came instead."""


class ReceivedFrames:
    """A connection whose frames are in `frames`, in the order in which they came. A mark is a position among them."""

    def __init__(self) -> None:
        self.frames: list[Frame] = []
        self.peer_ended: str | None = None
        """How the other end ended the connection, such as `eof` or `reset`."""
        self.closed_by_us = False
        self._changed = asyncio.Event()

    @property
    def closed(self) -> bool:
        return self.peer_ended is not None or self.closed_by_us

    def mark(self) -> int:
        """Return the position after what has come so far."""
        return len(self.frames)

    async def wait_for(self, test: FrameTest, seconds: float, since: int = 0) -> Frame | None:
        """Return the first frame from the mark on that passes the test, or None when there is none in time."""
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        at = since
        while True:
            for at in range(at, len(self.frames)):  # noqa: B020  continues where it stopped
                if test(self.frames[at]):
                    return self.frames[at]
            at = len(self.frames)
            left = until - loop.time()
            if self.closed or left <= 0:
                return None
            self._changed.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(left):
                    await self._changed.wait()

    async def expect(self, what: str, test: FrameTest, seconds: float, since: int = 0) -> Frame:
        """Return the frame as `wait_for` does. Raises ExpectationFailed when there is none in time."""
        found = await self.wait_for(test, seconds, since)
        if found is None:
            ended = f"the connection ended ({self.peer_ended or 'closed by the tester'})"
            how = ended if self.closed else f"none in {seconds:g} s"
            raise ExpectationFailed(f"expected {what}: {how}; came instead: {self.describe(since)}")
        return found

    async def wait_for_end(self, seconds: float) -> str | None:
        """Return how the other end has ended the connection, or None when it has not in time."""
        await self.wait_for(lambda _: False, seconds, self.mark())
        return self.peer_ended

    def describe(self, since: int = 0) -> str:
        """Name the last frames that came."""
        return ", ".join(brief(frame) for frame in self.frames[since:][-6:]) or "nothing"
