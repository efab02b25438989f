"""Log lines that strangers can cause as often as they like: of each kind a few are written in a while."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

INTERVAL_SECONDS = 60.0
CONNECTION_LINES = 120
"""Lines about connections of one client that end alike, in a minute."""


class Seldom:
    """Counts events by kind. Its caller bounds the number of kinds."""

    def __init__(
        self, interval: float = INTERVAL_SECONDS, now: Callable[[], float] = time.monotonic, *, most: int = 1
    ) -> None:
        """`most`: lines of the same kind that are written in an `interval` of seconds."""
        self._interval = interval
        self._now = now
        self._most = most
        self._kinds: dict[str, tuple[float, int, int]] = {}
        """When the interval began, and what was written and skipped since."""

    def count_event(self, kind: str) -> int | None:
        """Count one event. None: do not write it; else: write it, with the number that were not written before it."""
        now = self._now()
        began, written, skipped = self._kinds.get(kind, (now, 0, 0))
        if now - began >= self._interval:
            began = now
            written = 0
        if written >= self._most:
            self._kinds[kind] = began, written, skipped + 1
            return None
        self._kinds[kind] = began, written + 1, 0
        return skipped

    def facts_of_event(self, kind: str) -> dict[str, int] | None:
        """Count one event. None: do not write it; else: what its line has besides: how many were not written."""
        skipped = self.count_event(kind)
        if skipped is None:
            return None
        return {"others_since": skipped} if skipped else {}


def connection_lines() -> Seldom:
    """Return the bound of lines about connections: programs open them as often as they like."""
    return Seldom(most=CONNECTION_LINES)


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
