"""Rate limit for the frames of attached agents. Reading from an agent over its limit pauses; other agents do not wait.

The allowance belongs to the workspace, so a new connection does not renew it. Each request sent to the agent adds
enough for its answer, so an agent that works fast is never slowed down.
"""

from __future__ import annotations

from agent_common.clock import Clock
from agent_common.protocol.work import FrameFault

BURST = 2000.0
RATE = 1000.0
"""The largest balance, and the units added each second. One unit is about the cost of a small frame."""
MOST_DEBT = 10_000.0
"""The largest overdraft, so that no wait exceeds ten seconds."""
ANSWER_UNITS = 8.0
"""Units added for each request that is sent: its answer is three frames and some progress."""
ATTACH_UNITS = 50.0
LOOKUP_UNITS = 10.0
"""Cost of a database query."""
PUSH_UNITS = 100.0
"""Cost of sending the constraints again."""
FREE_BYTES = 64 << 20
"""Bytes of reported results that are stored in an hour at no further cost."""
_HOUR = 3600.0
_FAULT_UNITS = 100.0
_STORED_BYTES_PER_UNIT = 100
"""Beyond these, one unit pays for this many bytes: an agent that reports without end is read at 100 kB a second."""
_BYTES_PER_UNIT = 4096
_VALUES_PER_UNIT = 128
"""A long line costs one unit for this many bytes, and one for this many JSON values."""


class FrameRateLimiter:
    """The allowance of one workspace's agent."""

    __slots__ = ("_at", "_clock", "_free_bytes", "_left", "_stored_at")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._left = BURST
        self._free_bytes = float(FREE_BYTES)
        self._at = self._stored_at = clock.monotonic()

    def spend(self, units: float) -> float:
        """Take units, and return the seconds until the allowance is no longer overdrawn (0 if it is not)."""
        self._left -= units
        if self._left >= 0:  # not overdrawn: no need to read the clock
            return 0.0
        now = self._clock.monotonic()
        left = self._left + (now - self._at) * RATE
        self._left = max(-MOST_DEBT, min(BURST, left))
        self._at = now
        return max(0.0, -self._left / RATE)

    def spend_stored(self, size: int) -> None:
        """Take units for bytes that are kept on the disk, beyond those that are free."""
        now = self._clock.monotonic()
        regained = (now - self._stored_at) * FREE_BYTES / _HOUR
        self._stored_at = now
        self._free_bytes = min(FREE_BYTES, self._free_bytes + regained) - size
        if self._free_bytes < 0:
            self.spend(-self._free_bytes / _STORED_BYTES_PER_UNIT)
            self._free_bytes = 0.0

    def earn(self, units: float) -> None:
        """Add units, up to the largest balance."""
        self._left = min(BURST, self._left + units)


def cost_of(line: bytes | FrameFault) -> float:
    """Return the cost of a line in units: one, and more for a long line."""
    if isinstance(line, FrameFault):
        return _FAULT_UNITS
    if len(line) < _BYTES_PER_UNIT:
        return 1.0
    return 1.0 + len(line) / _BYTES_PER_UNIT + line.count(b",") / _VALUES_PER_UNIT
