"""Choose how long to wait before dialing again (docs/reference/mediation.md#switching-it-on)."""

from __future__ import annotations

from agent_common.backoff import Backoff

STEADY_SECONDS = 10.0
"""An attachment that has lasted so long was a good one: the next break begins anew."""
FENCED_SECONDS = 60.0
"""Before a guest that was superseded tries again: its successor may have gone."""
RECONNECT = Backoff(first=0.1, most=5.0, jitter=1.0)


class ReconnectBackoff:
    """Doubles from 100 ms to 5 s with full jitter."""

    def __init__(self, backoff: Backoff = RECONNECT) -> None:
        self._backoff, self._failures = backoff, 0

    def next_delay(self, *, attached: float, fenced: bool) -> float:
        """Seconds before the next attempt, given how long the last attachment has lasted; 0 when it came to none."""
        if fenced:
            return self._backoff.draw(FENCED_SECONDS, 2 * FENCED_SECONDS)
        self._failures = 1 if attached >= STEADY_SECONDS else self._failures + 1
        return self._backoff.pause(self._failures)
