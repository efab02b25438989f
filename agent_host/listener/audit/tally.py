"""Counting what repeats: the first time is told at once, the others of the same minute together."""

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
    """By key. `report` is called with a key, how many times it came after the last report, and the last value.

    What was counted and not told yet is lost if the process dies; that is at most a minute of repetitions.
    """

    def __init__(self, timers: Timers, report: Callable[[K, int, V], None]) -> None:
        self._timers, self._report = timers, report
        self._counts: dict[K, _Count[V]] = {}

    def add(self, key: K, value: V) -> bool:
        """Count one. True: it is the first of its kind in this minute, and its caller tells it."""
        known = self._counts.get(key)
        if known is None:
            self._counts[key] = _Count(0, value)
            self._timers.call_later(WINDOW_SECONDS, lambda: self._end_window(key))
            return True
        known.more, known.last = known.more + 1, value
        return False

    def _end_window(self, key: K) -> None:
        """Tell what has come in the minute that is over; a quiet one ends the counting."""
        count = self._counts[key]
        if not count.more:
            del self._counts[key]
            return
        more, count.more = count.more, 0
        self._timers.call_later(WINDOW_SECONDS, lambda: self._end_window(key))
        self._report(key, more, count.last)

    def flush(self) -> None:
        """Tell everything now, before the end."""
        for key, count in self._counts.items():
            if count.more:
                more, count.more = count.more, 0
                self._report(key, more, count.last)
