"""How much of all logs together is kept in memory, shared fairly by teams."""

from __future__ import annotations

from collections import OrderedDict
from typing import Protocol

MOST_KEPT_BYTES = 32 << 20
"""Of the events of all logs that are watched."""


class Keeper(Protocol):
    """One log's events in memory."""

    def drop(self, number: int) -> None:
        """Let go of its oldest event, which has this number."""
        ...


class FeedMemory:
    """Counts the events that feeds keep. Where there is no more room, the oldest of the team with the most go."""

    def __init__(self, most_bytes: int = MOST_KEPT_BYTES) -> None:
        self._most = most_bytes
        self._teams: dict[str, OrderedDict[tuple[Keeper, int], int]] = {}
        """Of each team the sizes of its events, the oldest first."""
        self._sizes: dict[str, int] = {}
        self.bytes = 0

    def add(self, team: str, keeper: Keeper, number: int, size: int) -> None:
        """Count an event, and have others dropped for it, or itself."""
        self._teams.setdefault(team, OrderedDict())[keeper, number] = size
        self._count(team, size)
        while self.bytes > self._most:
            largest = max(self._sizes, key=self._sizes.__getitem__)
            dropped_by, oldest = next(iter(self._teams[largest]))
            self.remove(largest, dropped_by, oldest)
            dropped_by.drop(oldest)

    def remove(self, team: str, keeper: Keeper, number: int) -> None:
        """Count an event no longer."""
        events = self._teams[team]
        self._count(team, -events.pop((keeper, number)))
        if not events:
            del self._teams[team], self._sizes[team]

    def _count(self, team: str, size: int) -> None:
        self._sizes[team] = self._sizes.get(team, 0) + size
        self.bytes += size
