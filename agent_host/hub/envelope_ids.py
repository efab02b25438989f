"""Ids of envelopes, which rise even if the clock goes back, and over restarts."""

from __future__ import annotations

from agent_common.clock import Clock

_PREFIX = "env_"


class EnvelopeIds:
    """Gives ids: `env_` and 16 hex digits, milliseconds times 65536. Text order is the order of the log."""

    def __init__(self, clock: Clock, newest: str = "") -> None:
        """`newest`: the highest id that was given before; empty: none."""
        self._clock = clock
        self.step = 1
        self.slot = 0
        """Ids are `slot` more than a multiple of `step`. Hubs that share a database have slots of their own."""
        self._last = int(newest.removeprefix(_PREFIX), 16) if newest else 0

    def next_id(self, after: str = "") -> str:
        """Return a new id, higher than all before, and than `after`, which another hub may have given."""
        least = max(self._last + 1, self._clock.now_ms() << 16)
        if after:
            least = max(least, int(after.removeprefix(_PREFIX), 16) + 1)
        self._last = least if self.step == 1 else least + (self.slot - least) % self.step
        return f"{_PREFIX}{self._last:016x}"
