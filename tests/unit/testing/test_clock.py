"""The clock that moves by hand."""

from __future__ import annotations

import pytest

from agent_runtime.ports import Clock
from agent_testing import ManualClock


def test_both_clocks_advance_together_and_the_wall_clock_may_jump() -> None:
    manual = ManualClock(now_ms=1000)
    clock: Clock = manual
    manual.advance(1.5)
    assert (clock.now_ms(), clock.monotonic()) == (2500, 1.5)
    manual.set_wall(10)
    assert (clock.now_ms(), clock.monotonic()) == (10, 1.5)
    with pytest.raises(ValueError, match="never goes back"):
        manual.advance(-1)
