"""The ring of events: bounded in count and bytes, and honest about what it has forgotten."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_common.event_ring import MAX_EVENT_BYTES, EventRing, RingLimits, TooManyWatchers, parse_event_id
from agent_testing import ManualClock

PATIENCE = 20.0


def ring(**limits: int) -> EventRing[str]:
    return EventRing(ManualClock(), RingLimits(**limits))


async def seen(stream: AsyncGenerator[bytes]) -> tuple[list[dict[str, Any]], list[int]]:
    """All events of a stream that ends, and all positions that it told."""
    async with asyncio.timeout(PATIENCE):
        text = b"".join([piece async for piece in stream]).decode()
    lines = text.split("\n")
    events = [json.loads(line[6:]) for line in lines if line.startswith("data: ")]
    return events, [int(line[4:]) for line in lines if line.startswith("id: ")]


def everything(_: str) -> bool:
    return True


async def start(events: EventRing[str]) -> int:
    """The position before the first event."""
    stream = events.follow(everything)
    first = await anext(stream)
    await stream.aclose()
    return int(first.decode().split("id: ")[1])


async def test_a_stream_misses_nothing_since_it_was_opened() -> None:
    events = ring()
    events.append("counted", "ann", {"number": 1})
    stream = events.follow(everything)
    events.append("counted", "ann", {"number": 2})
    events.close()
    told, _ = await seen(stream)
    assert [event["number"] for event in told] == [2]


async def test_a_watcher_goes_on_after_the_last_event_that_it_has() -> None:
    events = ring()
    begin = await start(events)
    for number in range(5):
        events.append("counted", "ann", {"number": number})
    events.close()
    told, ids = await seen(events.follow(everything, after=begin + 2))
    assert [event["number"] for event in told] == [2, 3, 4]
    assert ids == [begin + 2, begin + 3, begin + 4, begin + 5]


@given(
    counts=st.lists(st.integers(0, 300), max_size=40),
    bound=st.integers(1, 20),
    most_bytes=st.integers(100, 3000),
    behind=st.integers(0, 50),
)
async def test_what_is_missing_is_told_and_all_else_comes_once(
    counts: list[int], bound: int, most_bytes: int, behind: int
) -> None:
    events = ring(events=bound, bytes=most_bytes)
    begin = await start(events)
    for number, size in enumerate(counts, 1):
        events.append("counted", "ann", {"number": number, "text": "x" * size})
    events.close()
    kept = events._events.values()
    assert len(kept) <= bound
    assert sum(len(event.body) for event in kept) <= most_bytes
    last = max(0, len(counts) - behind)
    told, ids = await seen(events.follow(everything, after=begin + last))
    lost = [event for event in told if event["type"] == "events-lost"]
    numbers = [event["number"] for event in told if event["type"] == "counted"]
    whole = list(range(last + 1, len(counts) + 1))
    assert numbers == whole[len(whole) - len(numbers) :]
    assert bool(lost) == (len(numbers) < len(whole))
    assert told[: len(lost)] == lost
    assert ids == sorted(ids)


@given(
    flood=st.lists(st.tuples(st.sampled_from(["loud", "louder"]), st.integers(0, 400)), max_size=60),
    bound=st.integers(8, 20),
)
async def test_a_flood_pushes_out_only_its_own(flood: list[tuple[str, int]], bound: int) -> None:
    events = ring(events=bound, bytes=bound * 300)
    begin = await start(events)
    for number in range(2):
        events.append("approval-requested", "quiet", {"number": number}, owner="quiet")
    for who, size in flood:
        events.append("notice", who, {"text": "x" * size}, owner=who)
    events.append("approval-requested", "quiet", {"number": 2}, owner="quiet")
    events.close()
    for after in (begin, begin + 1):
        told, ids = await seen(events.follow(lambda who: who == "quiet", after=after))
        numbers = [event["number"] for event in told if event["type"] == "approval-requested"]
        assert numbers == [0, 1, 2][after - begin :]
        assert ids == sorted(ids)
    kept = events._events
    assert list(kept) == events._ids
    assert sum(share.bytes for share in events._shares.values()) == sum(len(one.body) for one in kept.values())


async def test_a_watcher_that_has_missed_events_of_others_is_told_and_goes_on_where_it_was() -> None:
    events = ring(events=6)
    begin = await start(events)
    events.append("asked", "quiet", {"number": 0}, owner="quiet")
    for number in range(20):
        events.append("noted", "loud", {"number": number}, owner="loud")
    stream = events.follow(everything, after=begin + 1)
    events.append("asked", "quiet", {"number": 1}, owner="quiet")
    events.close()
    told, _ = await seen(stream)
    assert [event["type"] for event in told] == ["events-lost", *["noted"] * 4, "asked"]
    assert [event["number"] for event in told if event["type"] == "noted"] == [16, 17, 18, 19]


@pytest.mark.parametrize("after", ["0", "1", "99999999999999999999", "abc", "-1"])
async def test_an_id_of_another_process_has_missed_something(after: str) -> None:
    events = ring()
    events.append("counted", "ann", {})
    events.close()
    told, _ = await seen(events.follow(everything, after=parse_event_id(after)))
    assert [event["type"] for event in told] == ["events-lost", "counted"]


async def test_an_audience_sees_its_own_and_its_position_moves_on() -> None:
    events = ring()
    begin = await start(events)
    stream = events.follow(lambda who: who == "ann", heartbeat=0.01)
    await anext(stream)
    events.append("counted", "bob", {"number": 1})
    assert await anext(stream) == b": keep-alive\nid: %d\n\n" % (begin + 1)
    events.append("counted", "ann", {"number": 2})
    events.close()
    told, _ = await seen(stream)
    assert [event["number"] for event in told] == [2]


async def test_a_watcher_hears_of_its_position_however_busy_others_are() -> None:
    """Without it a proxy cuts the stream, and its watcher goes on from a position that the ring has long forgotten."""
    events = ring()
    stream = events.follow(lambda who: who == "ann", heartbeat=0.5)
    await anext(stream)
    busy = True

    async def busy_others() -> None:
        while busy:
            events.append("counted", "bob", {})
            await asyncio.sleep(0.005)

    others = asyncio.create_task(busy_others())
    async with asyncio.timeout(PATIENCE):
        piece = await anext(stream)
    busy = False
    await others
    assert piece.startswith(b": keep-alive\nid: ")
    await stream.aclose()


async def test_a_watcher_that_the_ring_has_overtaken_is_cut() -> None:
    events = ring(events=3)
    stream = events.follow(everything)
    await anext(stream)
    for number in range(10):
        events.append("counted", "ann", {"number": number})
    assert await seen(stream) == ([], [])


async def test_ids_of_the_next_process_are_larger() -> None:
    clock = ManualClock()
    before: EventRing[str] = EventRing(clock)
    for _ in range(900):
        before.append("counted", "ann", {})
    last = await start(before)
    clock.advance(0.001)
    assert await start(EventRing(clock)) > last


async def test_long_fields_of_a_large_event_are_left_out() -> None:
    events = ring()
    begin = await start(events)
    events.append("asked", "ann", {"id": "a", "input": {"content": "x" * MAX_EVENT_BYTES}})
    events.close()
    [event], _ = await seen(events.follow(everything, after=begin))
    assert event.keys() == {"type", "id", "at"}


async def test_watchers_are_bounded_and_one_holder_leaves_room() -> None:
    events = ring(watchers=4)
    streams = [events.follow(everything, holder="greedy") for _ in range(3)]
    for stream in streams[:2]:
        await anext(stream)
    with pytest.raises(TooManyWatchers):
        events.follow(everything, holder="greedy")
    assert [piece async for piece in streams[2]] == [], "it was let in, but others were faster"
    other = events.follow(everything, holder="other")
    assert await anext(other)
    for stream in (*streams[:2], other):
        await stream.aclose()
    assert await anext(events.follow(everything, holder="greedy"))
