"""Which of many log lines are written."""

from __future__ import annotations

from agent_common.telemetry import Seldom
from agent_testing import ManualClock


def test_of_each_kind_one_is_written_in_an_interval_and_says_how_many_were_not() -> None:
    clock = ManualClock()
    seldom = Seldom(60, clock.monotonic)
    assert [seldom.count_event("a") for _ in range(3)] == [0, None, None]
    assert seldom.count_event("b") == 0
    clock.advance(59.9)
    assert seldom.count_event("a") is None
    clock.advance(0.1)
    assert seldom.facts_of_event("a") == {"others_since": 3}
    assert seldom.facts_of_event("a") is None


def test_a_few_may_be_written_before_the_others_are_counted() -> None:
    clock = ManualClock()
    seldom = Seldom(60, clock.monotonic, most=2)
    assert [seldom.facts_of_event("a") for _ in range(4)] == [{}, {}, None, None]
    clock.advance(60)
    assert [seldom.facts_of_event("a") for _ in range(3)] == [{"others_since": 2}, {}, None]
    clock.advance(600)
    assert [seldom.facts_of_event("a") for _ in range(3)] == [{"others_since": 1}, {}, None]
