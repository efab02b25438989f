"""The time of a bridge: faults wait on it, so that a test may move it by hand and replay a schedule at once."""

from __future__ import annotations

import asyncio
import heapq
import itertools
import time
from typing import Protocol

from ..clock import ManualClock


class BridgeClock(Protocol):
    """A clock that one can wait on."""

    def now_ms(self) -> int:
        """Epoch milliseconds, UTC."""
        ...

    def monotonic(self) -> float:
        """Seconds from some fixed point."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Waits so long on this clock."""
        ...


class SystemBridgeClock:
    """The machine's own time."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class ManualBridgeClock(ManualClock):
    """Time that stands still until `advance`, which wakes those who have waited long enough. One event loop only."""

    def __init__(self, now_ms: int = 1_800_000_000_000) -> None:
        super().__init__(now_ms)
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._order = itertools.count()

    @property
    def sleepers(self) -> int:
        """How many wait."""
        return sum(not sleeper.done() for _, _, sleeper in self._sleepers)

    async def sleep(self, seconds: float) -> None:
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        sleeper: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self.monotonic() + seconds, next(self._order), sleeper))
        await sleeper

    def advance(self, seconds: float) -> None:
        super().advance(seconds)
        while self._sleepers and self._sleepers[0][0] <= self.monotonic():
            sleeper = heapq.heappop(self._sleepers)[2]
            if not sleeper.done():
                sleeper.set_result(None)
