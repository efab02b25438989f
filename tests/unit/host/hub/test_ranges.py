"""Ranges are the set of the numbers in them."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from agent_host.hub.delivery.ranges import Ranges

NUMBERS = st.integers(0, 30)


@given(st.lists(NUMBERS | st.tuples(NUMBERS, NUMBERS), max_size=12), NUMBERS, NUMBERS)
def test_ranges_are_the_set_of_their_numbers(given: list[int | tuple[int, int]], low: int, high: int) -> None:
    ranges = Ranges(given)
    numbers = {n for one in given for n in ([one] if isinstance(one, int) else range(one[0], one[1] + 1))}
    assert {n for n in range(32) if n in ranges} == numbers
    pairs = ranges.pairs()
    assert all(one[1] + 1 < other[0] for one, other in pairwise(pairs)), "they touch"
    assert Ranges(pairs).pairs() == Ranges(sorted(numbers)).pairs() == pairs
    ranges.remove_through(low)
    ranges.remove(high)
    assert {n for n in range(32) if n in ranges} == {n for n in numbers if n > low and n != high}
