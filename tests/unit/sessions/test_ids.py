"""Row ids sort by insertion: within one millisecond, when the clock goes back, and their shape never changes."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from agent_runtime.sessions import Ids, is_session_id
from agent_testing import ManualClock

SHAPE = re.compile(r"msg_[0-9a-f]{12}[0-9A-Za-z]{14}")
WRAP_MS = 26 << 36
"""When the 48 bits of the stamp begin anew: 2026-08-14."""


def stamp(row_id: str) -> int:
    return int(row_id[4:16], 16)


@given(st.lists(st.integers(-100_000, 100_000), max_size=30))
def test_ids_rise_whatever_the_clock_does(jumps: list[int]) -> None:
    clock = ManualClock()
    ids = Ids(clock)
    made = [ids.new("msg")]
    for jump in jumps:
        clock.set_wall(clock.now_ms() + jump)
        made.append(ids.new("msg"))
    assert made == sorted(made)
    assert len({stamp(one) for one in made}) == len(made)
    assert all(SHAPE.fullmatch(one) for one in made)


def test_more_ids_in_a_millisecond_than_its_counter_holds() -> None:
    ids = Ids(ManualClock())
    made = [ids.new("prt") for _ in range(5000)]
    assert made == sorted(made)
    assert stamp(made[-1]) - stamp(made[0]) == 4999


def test_the_stamp_wraps_in_august_2026() -> None:
    assert datetime.fromtimestamp(WRAP_MS / 1000, tz=UTC).date().isoformat() == "2026-08-14"
    clock = ManualClock(WRAP_MS - 1)
    ids = Ids(clock)
    before = ids.new("msg")
    clock.advance(0.001)
    after = [ids.new("msg"), ids.new("msg")]
    assert stamp(before) == 0xFFFFFFFFF000
    assert [stamp(one) for one in after] == [0, 1]
    assert all(SHAPE.fullmatch(one) for one in (before, *after))


def test_whose_id_it_is() -> None:
    ids = Ids(ManualClock())
    assert is_session_id(ids.new("ses"))
    for other in (ids.new("msg"), "main", "ses_", "ses_" + "-" * 26, ids.new("ses") + "0"):
        assert not is_session_id(other)
