"""Log lines that strangers can cause as often as they like: of each kind one is written in a while."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

INTERVAL_SECONDS = 60.0


class Seldom:
    """Counts events by kind. Its caller bounds the number of kinds."""

    def __init__(self, interval: float = INTERVAL_SECONDS, now: Callable[[], float] = time.monotonic) -> None:
        """`every`: seconds from one line to the next of the same kind."""
        self._interval, self._now = interval, now
        self._last_logged: dict[str, tuple[float, int]] = {}

    def count_event(self, kind: str) -> int | None:
        """Count one event. None: do not write it; else: write it, with the number that were not written before it."""
        now = self._now()
        last, skipped = self._last_logged.get(kind, (now - self._interval, 0))
        if now - last < self._interval:
            self._last_logged[kind] = last, skipped + 1
            return None
        self._last_logged[kind] = now, 0
        return skipped


class SeldomWarnings(logging.Filter):
    """For a library's logger that writes a warning for each malformed request. Errors pass."""

    def __init__(self) -> None:
        super().__init__()
        self._seldom = Seldom()

    def filter(self, record: logging.LogRecord) -> bool:
        if record.levelno != logging.WARNING:
            return True
        skipped = self._seldom.count_event(str(record.msg))
        if skipped:
            record.msg = f"{record.msg} ({skipped} others since the last line)"
        return skipped is not None
