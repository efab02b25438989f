"""A clock that a test moves by hand."""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections.abc import Callable


class ManualCall:
    """A call that a ManualClock makes."""

    def __init__(self, call: Callable[[], None]) -> None:
        self.call: Callable[[], None] | None = call
        """The function to call; None once it was called or cancelled."""

    def cancel(self) -> None:
        """Do not make the call."""
        self.call = None

    def run(self) -> None:
        """Make the call, unless it was made or cancelled."""
        call = self.call
        self.call = None
        if call is not None:
            call()


class ManualClock:
    """Wall clock and monotonic clock that advance together."""

    def __init__(self, now_ms: int = 1_800_000_000_000) -> None:
        self._now_ms = now_ms
        self._monotonic = 0.0
        self._scheduled: list[tuple[float, int, ManualCall]] = []
        self._order = itertools.count()

    def now_ms(self) -> int:
        """Epoch milliseconds, UTC."""
        return self._now_ms

    def monotonic(self) -> float:
        """Seconds since the clock was made."""
        return self._monotonic

    def call_later(self, seconds: float, call: Callable[[], None]) -> ManualCall:
        """Call `call` once the clock has advanced by `seconds`; without any, in the next turn of the event loop."""
        scheduled = ManualCall(call)
        heapq.heappush(self._scheduled, (self._monotonic + seconds, next(self._order), scheduled))
        if seconds <= 0:
            asyncio.get_running_loop().call_soon(self.advance, 0.0)
        return scheduled

    def advance(self, seconds: float) -> None:
        """Move both clocks forward, then make the calls that are due, in the order in which they were."""
        if seconds < 0:
            raise ValueError("a monotonic clock never goes back")
        self._monotonic += seconds
        self._now_ms += round(seconds * 1000)
        while self._scheduled and self._scheduled[0][0] <= self._monotonic:
            heapq.heappop(self._scheduled)[2].run()

    def set_wall(self, now_ms: int) -> None:
        """Set the wall clock alone, backwards too, as an operator or NTP may do."""
        self._now_ms = now_ms
