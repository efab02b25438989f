"""When the hub must look at something again: an index by time, so that nothing is read to find out."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection

from agent_common.clock import Clock, ScheduledCall


class Deadlines:
    """Calls back with the ids of what is due, sessions or tasks. One may have several times; the earliest is enough."""

    def __init__(self, clock: Clock, on_due: Callable[[str], None]) -> None:
        self._clock = clock
        self._on_due = on_due
        self._heap: list[tuple[int, str]] = []
        self._timer: ScheduledCall | None = None
        self._timer_at = 0

    def schedule(self, subject: str, due_at: int) -> None:
        """Call back with this id at a time, in epoch milliseconds."""
        heapq.heappush(self._heap, (due_at, subject))
        if self._timer is None or due_at < self._timer_at:
            self._set_timer()

    def __len__(self) -> int:
        return len(self._heap)

    def subjects(self) -> set[str]:
        """All ids that have a time."""
        return {subject for _, subject in self._heap}

    def drop(self, subjects: Collection[str]) -> None:
        """Do not call back with these any more."""
        self._heap = [one for one in self._heap if one[1] not in subjects]
        heapq.heapify(self._heap)

    def close(self) -> None:
        """Call back no more."""
        self._heap.clear()
        if self._timer is not None:
            self._timer.cancel()

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = self._heap[0][0]
        # The wall clock may be set; a minute later it is looked at again.
        wait = min(max(self._timer_at - self._clock.now_ms(), 1), 60_000) / 1000
        self._timer = self._clock.call_later(wait, self._run)

    def _run(self) -> None:
        self._timer = None
        now = self._clock.now_ms()
        due: list[str] = []
        while self._heap and self._heap[0][0] <= now:
            due.append(heapq.heappop(self._heap)[1])
        if self._heap:
            self._set_timer()
        for subject in due:
            self._on_due(subject)
