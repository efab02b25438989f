"""Choose the wait before the next attempt to connect (docs/reference/mediation.md#switching-it-on)."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import SystemRandom

FIRST_SECONDS, MAX_SECONDS = 0.1, 5.0
STEADY_SECONDS = 10.0
"""Seconds after which an attachment counts as stable, so that the wait starts small again."""
FENCED_SECONDS = 60.0
"""Minimum seconds before a superseded guest tries again, in case its successor has gone."""


@dataclass(slots=True)
class ReconnectBackoff:
    """Doubles from 100 ms to 5 s with full jitter. Uses system randomness, so that copies of a guest do not
    synchronize."""

    random: SystemRandom = field(default_factory=SystemRandom)
    _next: float = FIRST_SECONDS

    def next_delay(self, *, attached: float, fenced: bool) -> float:
        """Return the seconds before the next attempt. `attached`: duration of the last attachment in seconds, 0 for
        none."""
        if fenced:
            return FENCED_SECONDS * self.random.uniform(1.0, 2.0)
        if attached >= STEADY_SECONDS:
            self._next = FIRST_SECONDS
        most = self._next
        self._next = min(MAX_SECONDS, self._next * 2)
        return self.random.uniform(0.0, most)
