"""Choose how long to wait before dialing again (docs/reference/mediation.md#switching-it-on)."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import SystemRandom

FIRST_SECONDS, MAX_SECONDS = 0.1, 5.0
STEADY_SECONDS = 10.0
"""An attachment that has lasted so long was a good one: the next break begins anew."""
FENCED_SECONDS = 60.0
"""Before a guest that was superseded tries again: its successor may have gone."""


@dataclass(slots=True)
class ReconnectBackoff:
    """Doubles from 100 ms to 5 s with full jitter. Drawn from the system: copies of a guest must not move in step."""

    random: SystemRandom = field(default_factory=SystemRandom)
    _next: float = FIRST_SECONDS

    def next_delay(self, *, attached: float, fenced: bool) -> float:
        """Seconds before the next attempt, given how long the last attachment has lasted; 0 when it came to none."""
        if fenced:
            return FENCED_SECONDS * self.random.uniform(1.0, 2.0)
        if attached >= STEADY_SECONDS:
            self._next = FIRST_SECONDS
        most = self._next
        self._next = min(MAX_SECONDS, self._next * 2)
        return self.random.uniform(0.0, most)
