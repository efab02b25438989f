"""How fast the clients of links are read: what they send is kept on the disk."""

from __future__ import annotations

from agent_common.clock import Clock

FREE_BYTES = 64 << 20
"""Bytes that a client may send at once, and in an hour, without being slowed down."""
SLOW = 100_000
"""Bytes a second at which it is read beyond these."""
_HOUR = 3600.0
_MOST_CLIENTS = 10_000


class ByteQuota:
    """What each client may send. It belongs to the name, so a new link does not renew it."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._left: dict[str, tuple[float, float]] = {}
        """By name, the least recent first: bytes that are left, and when that was so."""

    def spend(self, client: str, size: int) -> float:
        """Count bytes that a client has sent. Returns the seconds after which more of it may be read."""
        now = self._clock.monotonic()
        left, at = self._left.pop(client, (float(FREE_BYTES), now))
        left = min(FREE_BYTES, left + (now - at) * FREE_BYTES / _HOUR) - size
        self._left[client] = max(0.0, left), now
        if len(self._left) > _MOST_CLIENTS:
            del self._left[next(iter(self._left))]
        return max(0.0, -left / SLOW)
