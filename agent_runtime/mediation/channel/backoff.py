"""Choose the wait before the next attempt to connect (docs/reference/mediation.md#switching-it-on)."""

from __future__ import annotations

from agent_common.backoff import Backoff

STEADY_SECONDS = 10.0
"""Seconds after which an attachment counts as stable, so that the wait starts small again."""
FENCED_SECONDS = 60.0
"""Minimum seconds before a superseded guest tries again, in case its successor has gone."""
RECONNECT = Backoff(first=0.1, most=5.0, jitter=1.0)


class ReconnectBackoff:
    """Doubles from 100 ms to 5 s with full jitter."""

    def __init__(self, backoff: Backoff = RECONNECT) -> None:
        self._backoff = backoff
        self._failures = 0

    def next_delay(self, *, attached: float, fenced: bool) -> float:
        """Return the seconds before the next attempt. `attached`: duration of the last attachment in seconds, 0 for
        none."""
        if fenced:
            return self._backoff.draw(FENCED_SECONDS, 2 * FENCED_SECONDS)
        self._failures = 1 if attached >= STEADY_SECONDS else self._failures + 1
        return self._backoff.pause(self._failures)
