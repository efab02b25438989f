"""Faults that happen by themselves: a seed says all about them."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_testing import BridgeFaults, FakeBridge, ManualBridgeClock, schedule
from tests.unit.testing.ends import TCP, Guest, Host, ends, joined, others_turn, wait_until

RATES = [field.name for field in dataclasses.fields(BridgeFaults) if field.name.endswith("_per_minute")]
faults = st.builds(
    BridgeFaults,
    seed=st.integers(),
    longest_stall=st.floats(0, 100),
    longest_outage=st.floats(0, 100),
    cut_within=st.integers(0, 1 << 20),
    **{name: st.sampled_from([0.0, 0.1, 1.0, 600.0]) for name in RATES},
)


@pytest.fixture
async def pair() -> AsyncIterator[tuple[Guest, Host]]:
    async with ends() as both:
        yield both


def made(fields: dict[str, Any]) -> BridgeFaults:
    return BridgeFaults(**fields)


def first(faults: BridgeFaults, count: int = 50) -> list[object]:
    return list(itertools.islice(schedule(faults), count))


@given(faults)
def test_the_same_seed_gives_the_same_schedule(faults: BridgeFaults) -> None:
    assert first(faults) == first(dataclasses.replace(faults))


@given(faults)
def test_events_come_in_order_within_their_bounds(faults: BridgeFaults) -> None:
    events = list(itertools.islice(schedule(faults), 100))
    assert [event.at for event in events] == sorted(event.at for event in events)
    assert bool(events) == any(getattr(faults, name) for name in RATES)
    for event in events:
        assert event.at > 0
        assert 0 <= event.pick < 1
        assert 0 <= event.count <= faults.cut_within
        assert 0 <= event.seconds <= max(faults.longest_stall, faults.longest_outage, 1.0)


@given(faults)
def test_one_kind_knows_nothing_of_the_others(faults: BridgeFaults) -> None:
    alone = BridgeFaults(seed=faults.seed, breaks_per_minute=60.0, longest_stall=faults.longest_stall)
    among = dataclasses.replace(faults, breaks_per_minute=60.0)
    mixed = (event for event in itertools.islice(schedule(among), 500) if event.kind == "break")
    for event, expected in zip(mixed, schedule(alone), strict=False):
        assert dataclasses.replace(event, count=0) == dataclasses.replace(expected, count=0)


def test_another_seed_gives_another_schedule_and_rates_are_kept() -> None:
    events = list(itertools.islice(schedule(BridgeFaults(seed=1, stalls_per_minute=30.0)), 1000))
    assert first(BridgeFaults(seed=1, stalls_per_minute=30.0)) != first(BridgeFaults(seed=2, stalls_per_minute=30.0))
    assert 1800 < events[-1].at < 2200  # 2000 seconds, give or take
    both = itertools.islice(schedule(BridgeFaults(stalls_per_minute=1.0, breaks_per_minute=1.0)), 20)
    assert len({event.at for event in both}) == 20  # no kind keeps step with another
    assert {event.direction for event in events} == {"to_host", "to_guest"}


@pytest.mark.parametrize("field", [*RATES, "delay", "longest_flood", "cut_within"])
@pytest.mark.parametrize("value", [-1, math.inf, math.nan])
def test_a_wrong_number_is_named(field: str, value: float) -> None:
    with pytest.raises(ValueError, match=f"{field} is "):
        made({field: value})


def test_numbers_that_make_no_sense_are_named() -> None:
    with pytest.raises(ValueError, match="piece is 0"):
        BridgeFaults(piece=0)
    with pytest.raises(ValueError, match="flap_every"):
        BridgeFaults(flap_every=0.0)


async def test_the_schedule_plays_on_the_clock_it_is_given(pair: tuple[Guest, Host]) -> None:
    guest, host = pair
    plan, pace = BridgeFaults(seed=3, breaks_per_minute=6.0), ManualBridgeClock()
    expected = list(itertools.islice(schedule(plan), 3))
    async with FakeBridge(TCP, host.url, faults=plan, clock=pace) as bridge:
        for number, event in enumerate(expected, 1):
            inner, _ = await joined(guest, host, bridge)
            await wait_until(lambda: pace.sleepers == 1)
            assert await inner.silent()
            pace.advance(event.at - pace.monotonic() + 1e-6)
            assert (await inner.end())[1] == event.how
            counts = await bridge.until(lambda counts, number=number: counts.events == number)
            assert counts.breaks == number
            await bridge.until(lambda counts: counts.open == 0)
        assert bridge.history == expected


async def test_every_kind_can_be_played_and_the_bridge_is_whole_after_it(pair: tuple[Guest, Host]) -> None:
    """A storm of everything, with somebody who dials all the time; then the bridge still closes and leaves nothing."""
    guest, host = pair
    every = dict.fromkeys(RATES, 600.0)
    plan = made({**every, "seed": 11, "longest_stall": 0.5, "longest_outage": 0.5, "longest_flap": 0.5})
    pace = ManualBridgeClock()
    async with FakeBridge(TCP, host.url, faults=plan, clock=pace) as bridge:
        for _ in range(100):
            try:
                peer = await guest.dial(bridge.url)
                await peer.send(b"x" * 100)
            except OSError:
                pass  # nobody listens, or it broke while we spoke
            pace.advance(0.05)
            await others_turn()
        played = {event.kind for event in bridge.history}
        assert len(played) == len(RATES)
        assert bridge.counts.breaks > 0


async def test_outages_overlap_and_the_last_opens_again(pair: tuple[Guest, Host]) -> None:
    guest, host = pair
    plan = BridgeFaults(seed=5, severs_per_minute=60.0, refusals_per_minute=60.0, longest_outage=1.0)
    pace = ManualBridgeClock()
    async with FakeBridge(TCP, host.url, faults=plan, clock=pace) as bridge:
        seen: set[bool] = set()
        over: list[float] = []
        while len(seen) < 2 or not bridge.listening or pace.monotonic() < 20:
            pace.advance(0.1)
            await others_turn()
            seen.add(bridge.listening)
            over += [pace.monotonic() + event.seconds for event in bridge.history[len(over) :]]
            assert bridge.listening == all(end <= pace.monotonic() for end in over)
            assert pace.monotonic() < 120
        assert not bridge.severed
        await guest.dial(bridge.url)
