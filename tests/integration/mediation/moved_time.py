"""One time for both ends, which a test moves: deadlines of minutes pass at once, over real sockets."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from agent_common.clock import ScheduledCall


class HandLoop(asyncio.SelectorEventLoop):
    """Its time is the machine's, and what a test has let pass on top of that. Whatever is due then happens next."""

    ahead = 0.0

    def time(self) -> float:
        return super().time() + self.ahead

    def leap(self, seconds: float) -> None:
        self.ahead += seconds


class Hours:
    """Fills Clock, of the runtime and of the host: its monotonic time is the loop's, its wall may be set by itself."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, HandLoop)
        self._loop = loop
        self.wall_ahead_ms = 0
        """A jump of the wall clock that no other clock has made."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000 + round(self._loop.ahead * 1000) + self.wall_ahead_ms

    def monotonic(self) -> float:
        return self._loop.time()

    def call_later(self, seconds: float, call: Callable[[], None]) -> ScheduledCall:
        return self._loop.call_later(seconds, call)
