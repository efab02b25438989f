"""Pauses between attempts double up to a limit, and leave a share to chance."""

from __future__ import annotations

from agent_common.backoff import Backoff


def test_pauses_double_up_to_the_longest() -> None:
    backoff = Backoff(first=0.5, most=3.0)
    assert [backoff.pause(failures) for failures in range(1, 6)] == [0.5, 1.0, 2.0, 3.0, 3.0]
    assert backoff.pause(100_000) == 3.0


def test_a_share_of_the_pause_is_left_to_chance() -> None:
    backoff = Backoff(first=1.0, most=8.0, jitter=0.25)
    drawn = [backoff.pause(3) for _ in range(200)]
    assert 3.0 <= min(drawn) < 3.3
    assert 3.7 < max(drawn) <= 4.0
    assert backoff.longest(3) == 4.0
