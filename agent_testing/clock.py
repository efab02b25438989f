"""A clock that moves only when it is told to."""

from __future__ import annotations


class ManualClock:
    """Wall clock and monotonic clock that advance together."""

    def __init__(self, now_ms: int = 1_800_000_000_000) -> None:
        self._now_ms = now_ms
        self._monotonic = 0.0

    def now_ms(self) -> int:
        """Epoch milliseconds, UTC."""
        return self._now_ms

    def monotonic(self) -> float:
        """Seconds since the clock was made."""
        return self._monotonic

    def advance(self, seconds: float) -> None:
        """Moves both clocks forward."""
        if seconds < 0:
            raise ValueError("a monotonic clock never goes back")
        self._monotonic += seconds
        self._now_ms += round(seconds * 1000)

    def set_wall(self, now_ms: int) -> None:
        """Sets the wall clock alone, backwards too, as an operator or NTP may do."""
        self._now_ms = now_ms
