"""The clock of guest and host: wall clock for timestamps, monotonic clock for durations, and calls that are due later.

Passed in wherever it decides something, so that tests can bring their own.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Protocol

LAST_MS = 253_402_300_799_000
"""The last second of the year 9999, in epoch milliseconds."""


class ScheduledCall(Protocol):
    """A call that is due later."""

    def cancel(self) -> None:
        """Do not make the call. No effect on a call that was made already."""
        ...


class Clock(Protocol):
    def now_ms(self) -> int:
        """Epoch milliseconds, UTC."""
        ...

    def monotonic(self) -> float:
        """Seconds from an arbitrary point; never goes back."""
        ...

    def call_later(self, seconds: float, call: Callable[[], None]) -> ScheduledCall:
        """Call `call` on the running event loop in `seconds` of the monotonic clock."""
        ...


class SystemClock:
    """The machine's own clocks."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        return time.monotonic()

    def call_later(self, seconds: float, call: Callable[[], None]) -> ScheduledCall:
        return asyncio.get_running_loop().call_later(seconds, call)


def clamp_to_calendar(ms: int) -> int:
    """Return epoch milliseconds, or the nearest in the years 1970 to 9999: files and imports may have any time."""
    return min(max(0, ms), LAST_MS)


def calendar_time(ms: int) -> datetime:
    """Return epoch milliseconds, or the nearest of the calendar, as a time in UTC."""
    return datetime.fromtimestamp(clamp_to_calendar(ms) / 1000, tz=UTC)
