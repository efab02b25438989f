"""How much each client of the hub may send: it is kept on the disk."""

from __future__ import annotations

from agent_common.clock import Clock

FREE_BYTES = 64 << 20
"""Bytes that a client may send at once, and in an hour, without being slowed down."""
SLOW = 100_000
"""Bytes a second at which it is read beyond these."""
_HOUR = 3600.0
_MOST_CLIENTS = 10_000


class ByteQuota:
    """Counts what each client sends, by its name: another link does not renew the quota, and several links share it."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._left: dict[str, tuple[float, float]] = {}
        """By name, the least recent first: bytes that were left, and when. Negative: it has sent too many."""

    def spend(self, client: str, size: int) -> None:
        """Count bytes that a client has sent."""
        left = self._left_of(client) - size
        self._left.pop(client, None)
        self._left[client] = left, self._clock.monotonic()
        if len(self._left) > _MOST_CLIENTS:
            del self._left[next(iter(self._left))]

    def wait_seconds(self, client: str) -> float:
        """Return the seconds after which more may be read of what a client sends."""
        return max(0.0, -self._left_of(client) / SLOW)

    def _left_of(self, client: str) -> float:
        left, at = self._left.get(client, (float(FREE_BYTES), 0.0))
        elapsed = self._clock.monotonic() - at
        if left < 0 and elapsed * SLOW <= -left:
            return left + elapsed * SLOW
        elapsed += min(0.0, left) / SLOW
        return min(FREE_BYTES, max(0.0, left) + elapsed * FREE_BYTES / _HOUR)
