"""Rate limit for the frames of attached agents: a faster agent waits in its connection, and delays no other.

An allowance belongs to the workspace, so a new connection does not renew it. Work that is sent to the agent adds what
its answer takes: however fast work is done, that never runs out.
"""

from __future__ import annotations

from agent_common.clock import Clock
from agent_common.protocol.work import FrameFault

BURST, RATE = 2000.0, 1000.0
"""Most units that are saved for a burst, and units added each second. A unit is about the cost of a small frame."""
MOST_DEBT = 10_000.0
"""Most units that may be owed, so that nothing waits longer than ten seconds."""
ANSWER_UNITS = 8.0
"""Added for each request that goes out: its answer is three frames, and some progress."""
ATTACH_UNITS = 50.0
LOOKUP_UNITS = 10.0
"""Cost of a query to the database."""
PUSH_UNITS = 100.0
"""Cost of sending the constraints again."""
_FAULT_UNITS = 100.0
_BYTES_PER_UNIT = 4096
_VALUES_PER_UNIT = 128
"""Bytes and JSON values of a long line that cost as much as one small frame."""


class FrameRateLimiter:
    """The allowance of one workspace."""

    __slots__ = ("_at", "_clock", "_left")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._left, self._at = BURST, clock.monotonic()

    def spend(self, units: float) -> float:
        """Take units and return the seconds until the allowance is no longer overdrawn."""
        self._left -= units
        if self._left >= 0:  # no need to read the clock
            return 0.0
        now = self._clock.monotonic()
        left = self._left + (now - self._at) * RATE
        self._left, self._at = max(-MOST_DEBT, min(BURST, left)), now
        return max(0.0, -self._left / RATE)

    def earn(self, units: float) -> None:
        """Give units back, at most as many as are kept for a burst."""
        self._left = min(BURST, self._left + units)


def cost_of(line: bytes | FrameFault) -> float:
    """The units of a line: one, and more for a long one by its bytes and values."""
    if isinstance(line, FrameFault):
        return _FAULT_UNITS
    if len(line) < _BYTES_PER_UNIT:
        return 1.0
    return 1.0 + len(line) / _BYTES_PER_UNIT + line.count(b",") / _VALUES_PER_UNIT
