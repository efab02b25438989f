"""Faults that happen by themselves: a seed says all about them."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import itertools
import math
from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_testing import BridgeFaults, FakeBridge, schedule
from tests.unit.testing.ends import SECONDS, TCP, Guest, Host, ends, joined, others_turn, wait_until

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


@pytest.mark.parametrize("field", [*RATES, "longest_flood", "cut_within"])
@pytest.mark.parametrize("value", [-1, math.inf, math.nan])
def test_a_wrong_number_is_named(field: str, value: float) -> None:
    with pytest.raises(ValueError, match=f"{field} is "):
        made({field: value})


def test_a_rate_that_makes_no_sense_is_named() -> None:
    with pytest.raises(ValueError, match="flood_rate"):
        BridgeFaults(flood_rate=0.0)


async def test_the_schedule_plays_in_its_order(pair: tuple[Guest, Host]) -> None:
    guest, host = pair
    plan = BridgeFaults(seed=3, breaks_per_minute=600.0)
    expected = list(itertools.islice(schedule(plan), 3))
    async with FakeBridge(TCP, host.url, faults=plan) as bridge:
        broken = [(await (await joined(guest, host, bridge))[0].end())[1] for _ in expected]
        played = bridge.history
        assert played[:3] == expected[: len(played)]
        assert bridge.counts.breaks >= 3
        assert set(broken) <= {event.how for event in played}


async def test_every_kind_can_be_played_and_the_bridge_is_whole_after_it(pair: tuple[Guest, Host]) -> None:
    """A storm of everything, with a guest that dials all the time; then the bridge still closes and leaves nothing."""
    guest, host = pair
    every = dict.fromkeys(RATES, 600.0)
    longest = dict.fromkeys(("longest_stall", "longest_outage", "longest_flap", "longest_flood"), 0.05)
    async with FakeBridge(TCP, host.url, faults=made({**every, **longest, "seed": 11})) as bridge:
        async with asyncio.timeout(60):
            while len({event.kind for event in bridge.history}) < len(RATES) or not bridge.counts.breaks:
                try:
                    peer = await guest.dial(bridge.url)
                    await peer.send(b"x" * 100)
                except OSError:
                    pass  # nothing listens, or it broke while we spoke
                await others_turn()


async def test_outages_overlap_and_the_last_opens_again(pair: tuple[Guest, Host]) -> None:
    guest, host = pair
    plan = BridgeFaults(seed=5, severs_per_minute=600.0, refusals_per_minute=600.0, longest_outage=0.1)
    async with FakeBridge(TCP, host.url, faults=plan) as bridge:
        await wait_until(lambda: {event.kind for event in bridge.history} == {"refuse", "sever"})
        await wait_until(lambda: not bridge.listening)
        async with asyncio.timeout(SECONDS):
            while True:
                await wait_until(lambda: bridge.listening)
                with contextlib.suppress(OSError):  # the next outage has begun
                    await guest.dial(bridge.url)
                    break
