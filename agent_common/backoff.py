"""Pauses between attempts that fail, for guest and host."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import SystemRandom

Draw = Callable[[float, float], float]
"""A random number between two."""


@dataclass(frozen=True, slots=True)
class Backoff:
    """Pauses that double from `first` to `most` seconds."""

    first: float
    most: float
    jitter: float = 0.0
    """Share of each pause that is left to chance: 0 for none, 1 for all of it."""
    draw: Draw = SystemRandom().uniform
    """From the system by default: copies of a guest must not move in step."""

    def longest(self, failures: int) -> float:
        """Seconds after so many failures in a row, where chance takes nothing off. The first failure is number 1."""
        return min(self.most, self.first * 2.0 ** min(failures - 1, 60))

    def pause(self, failures: int) -> float:
        """Seconds to wait after so many failures in a row."""
        longest = self.longest(failures)
        return self.draw(longest * (1.0 - self.jitter), longest)
