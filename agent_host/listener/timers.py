"""Deadlines by the host's clock: one heap, one wake-up call. Tests move the clock and call `run_due`."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable

import structlog

from ..clock import Clock

log = structlog.get_logger(__name__)

_MOST_STALE = 1024


class Timer:
    """Calls once, unless it is cancelled."""

    __slots__ = ("_call", "_due", "_frozen", "_owner")

    def __init__(self, owner: Timers, due: float, call: Callable[[], None]) -> None:
        self._owner, self._due = owner, due
        self._call: Callable[[], None] | None = call
        self._frozen: tuple[float, Callable[[], None]] | None = None
        """What is left of its time, and what it is to call, while it stands still."""

    @property
    def due(self) -> float:
        return self._due

    @property
    def pending(self) -> bool:
        return self._call is not None

    def cancel(self) -> None:
        self._frozen = None
        if self._call is not None:
            self._call = None
            self._owner.stale()

    def freeze(self) -> None:
        """Stands still until `thaw`."""
        if self._call is not None:
            frozen = self._owner.left(self._due), self._call
            self.cancel()
            self._frozen = frozen

    def thaw(self) -> None:
        """Goes on with the time that was left."""
        if self._frozen is not None:
            (left, self._call), self._frozen = self._frozen, None
            self._due = self._owner.again(left, self)

    def fire(self) -> None:
        call, self._call = self._call, None
        if call is not None:
            call()


class Timers:
    """All timers of a listener."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._heap: list[tuple[float, int, Timer]] = []
        self._count = 0
        self._stale = 0
        self._wake: asyncio.TimerHandle | None = None
        self._closed = False

    def after(self, seconds: float, call: Callable[[], None]) -> Timer:
        """Calls in so many seconds from now."""
        timer = Timer(self, self._clock.monotonic() + seconds, call)
        self._push(timer, timer.due)
        return timer

    def left(self, due: float) -> float:
        return due - self._clock.monotonic()

    def again(self, seconds: float, timer: Timer) -> float:
        """Takes a timer that has stood still; gives when it is due now."""
        due = self._clock.monotonic() + seconds
        self._push(timer, due)
        return due

    def _push(self, timer: Timer, due: float) -> None:
        self._count += 1
        heapq.heappush(self._heap, (due, self._count, timer))
        if self._heap[0][2] is timer:
            self._arm()

    def run_due(self) -> None:
        """Calls whatever is due by the clock."""
        now = self._clock.monotonic()
        while self._heap and self._heap[0][0] <= now and not self._closed:
            due, _, timer = heapq.heappop(self._heap)
            if not timer.pending or timer.due != due:  # cancelled, or it has stood still meanwhile
                self._stale -= 1
                continue
            try:
                timer.fire()
            except Exception as error:
                log.exception("timer_failed", why=repr(error))  # the others must go on
        self._arm()

    def stale(self) -> None:
        """One was cancelled. Its place in the heap is given back some time."""
        self._stale += 1
        if self._stale > _MOST_STALE and self._stale > len(self._heap) // 2:
            self._heap = [entry for entry in self._heap if entry[2].pending and entry[2].due == entry[0]]
            heapq.heapify(self._heap)
            self._stale = 0

    def close(self) -> None:
        self._closed = True
        self._heap.clear()
        if self._wake is not None:
            self._wake.cancel()

    def _arm(self) -> None:
        if self._wake is not None:
            self._wake.cancel()
            self._wake = None
        if self._heap and not self._closed:
            wait = max(0.0, self._heap[0][0] - self._clock.monotonic())
            self._wake = asyncio.get_running_loop().call_later(wait, self.run_due)
