"""Count repetitions: the first is reported at once, the rest of the minute together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from ..timers import Timers

WINDOW_SECONDS = 60.0
K = TypeVar("K")
V = TypeVar("V")


@dataclass(slots=True)
class _Count(Generic[V]):
    more: int
    last: V


class RepeatCounter(Generic[K, V]):
    """Counts repetitions by key. `report` is called with the key, its count since the last report, and the last value.

    A crash loses the counts that are not reported yet: at most a minute of repetitions.
    """

    def __init__(self, timers: Timers, report: Callable[[K, int, V], None]) -> None:
        self._timers = timers
        self._report = report
        self._counts: dict[K, _Count[V]] = {}

    def add(self, key: K, value: V) -> bool:
        """Count one. Returns True if it is the first of its key in this minute; the caller then reports it."""
        known = self._counts.get(key)
        if known is None:
            self._counts[key] = _Count(0, value)
            self._timers.call_later(WINDOW_SECONDS, lambda: self._end_window(key))
            return True
        known.more = known.more + 1
        known.last = value
        return False

    def _end_window(self, key: K) -> None:
        """Report the repetitions of the minute that has ended. Without any, forget the key."""
        count = self._counts[key]
        if not count.more:
            del self._counts[key]
            return
        more = count.more
        count.more = 0
        self._timers.call_later(WINDOW_SECONDS, lambda: self._end_window(key))
        self._report(key, more, count.last)

    def flush(self) -> None:
        """Report all counts now, before the process ends."""
        for key, count in self._counts.items():
            if count.more:
                more = count.more
                count.more = 0
                self._report(key, more, count.last)
