"""Bound the rows that agents cause in the audit trail: beyond its share, rows of a kind become one with their number.

Without a bound, an agent that sends frames at the pace of its rate limit fills the trail's retention within an hour. No
row is lost that says what happened to work: the host's decisions are written apart from this.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from agent_common.protocol.work import to_rfc3339

from ..timers import Timers

WINDOW_SECONDS = 60.0
ROWS = 600
"""Rows of one workspace that are written one by one in a window, and as many again of its progress frames."""
ROWS_OF_REQUEST = 8
"""Added for each request that is sent to the agent: its answer is three frames, which this leaves room to repeat."""
MOST_KINDS = 32
"""Kinds that are counted apart in a window. Agents may invent kinds; the further ones are counted together."""
MOST_BYTES = 2**31 - 1
"""That the column holds."""
AuditRow = tuple[Any, ...]
"""The values of a row, in the column order of the table `work_audit`, without the id."""
_AT = 0
_WORKSPACE = 1
_DIRECTION = 4
_KIND = 5
_BYTES = 8
_DETAIL = 10


@dataclass(slots=True)
class _Repeats:
    """Rows of one kind that are not written."""

    number: int
    first_at: int
    size: int
    last: AuditRow


@dataclass(slots=True)
class _Window:
    """A minute of one workspace."""

    left: dict[bool, int] = field(default_factory=lambda: {False: ROWS, True: ROWS})
    """Rows that are still written one by one: of progress frames, and of all others."""
    repeats: dict[tuple[str, str], _Repeats] = field(default_factory=dict[tuple[str, str], _Repeats])


class RowShares:
    """Writes rows or counts them. A crash loses the counts that are not written yet: at most a minute of them."""

    def __init__(self, timers: Timers, append: Callable[[AuditRow], None]) -> None:
        self._timers = timers
        self._append = append
        self._windows: dict[str | None, _Window] = {}

    def add(self, row: AuditRow) -> None:
        """Write a row that the workspace's agent has caused, or count it if the share of this minute is used up."""
        workspace = row[_WORKSPACE]
        direction = row[_DIRECTION]
        kind = row[_KIND]
        window = self._windows.get(workspace)
        if window is None:
            window = self._windows[workspace] = _Window()
            self._timers.call_later(WINDOW_SECONDS, lambda: self._end(workspace))
        if direction == "out" and kind == "request":
            window.left[False] += ROWS_OF_REQUEST
        progress = kind == "progress"
        if window.left[progress] > 0:
            window.left[progress] -= 1
            self._append(row)
        else:
            _count(window.repeats, row)

    def flush(self) -> None:
        """Write all counts now, before the process ends."""
        for window in self._windows.values():
            self._write(window)

    def _end(self, workspace: str | None) -> None:
        self._write(self._windows.pop(workspace))

    def _write(self, window: _Window) -> None:
        for repeats in window.repeats.values():
            self._append(_summary(repeats))
        window.repeats.clear()


def _count(known: dict[tuple[str, str], _Repeats], row: AuditRow) -> None:
    key = row[_DIRECTION], row[_KIND]
    if key not in known and len(known) >= MOST_KINDS:
        row = (*row[:_KIND], "other", *row[_KIND + 1 :])
        key = row[_DIRECTION], "other"
    repeats = known.get(key)
    if repeats is None:
        known[key] = _Repeats(1, row[_AT], row[_BYTES], row)
    else:
        repeats.number = repeats.number + 1
        repeats.size = repeats.size + row[_BYTES]
        repeats.last = row


def _summary(repeats: _Repeats) -> AuditRow:
    """Return one row for all: that of the last without what is its own."""
    at, workspace, epoch, connection, direction, kind, *_ = last = repeats.last
    detail = f"{repeats.number} more, from {to_rfc3339(repeats.first_at)} to {to_rfc3339(at)}"
    if last[_DETAIL]:
        detail = f"{detail}; the last: {last[_DETAIL]}"
    size = min(repeats.size, MOST_BYTES)
    return at, workspace, epoch, connection, direction, kind, None, None, size, None, detail, None
