"""Count how often a fact was found; old uses fade."""

from __future__ import annotations

from dataclasses import dataclass

DAY_MS = 86_400_000
USE_DAYS = 30
"""Days after which a use counts half."""


@dataclass(frozen=True, slots=True)
class UseCount:
    """A number of uses that decays with time."""

    count: float = 0.0
    at: int = 0
    """Epoch milliseconds of the last use."""

    def decayed(self, now: int) -> float:
        return self.count * decay(now - self.at, USE_DAYS)

    def add_use(self, now: int) -> UseCount:
        return UseCount(self.decayed(now) + 1, now)


def decay(age: int, days: int) -> float:
    return 0.5 ** (max(0, age) / (days * DAY_MS))
