"""The real clock, injected everywhere so that tests can bring their own."""

from __future__ import annotations

import time


class SystemClock:
    """Wall time for stamps, monotonic time for durations."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        return time.monotonic()
