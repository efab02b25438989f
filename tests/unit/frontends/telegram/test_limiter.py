"""Calls wait until Telegram's limits allow them."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_testing import ManualClock
from frontends.platform import TemporarilyUnavailable
from frontends.telegram.limiter import Limiter

CALLS = st.lists(st.tuples(st.sampled_from([1, 2, 3, -1, -2]), st.sampled_from([0.0, 0.0, 0.1, 1.0, 7.0])), max_size=80)
FOREVER = 1e9


class Time:
    """Time that passes when all calls wait."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self._sleepers: list[tuple[float, asyncio.Event]] = []

    async def sleep(self, seconds: float) -> None:
        woken = asyncio.Event()
        self._sleepers.append((self.clock.monotonic() + seconds, woken))
        await woken.wait()

    async def run(self, calls: asyncio.Future[Any]) -> None:
        while not calls.done():
            for _ in range(5):
                await asyncio.sleep(0)
            if self._sleepers:
                self._sleepers.sort(key=lambda sleeper: sleeper[0])
                at, woken = self._sleepers.pop(0)
                self.clock.advance(max(0.0, at - self.clock.monotonic()))
                woken.set()
        await calls


def most_within(times: list[float], seconds: float) -> int:
    return max((sum(1 for each in times if at <= each < at + seconds - 1e-6) for at in times), default=0)


@given(calls=CALLS)
async def test_no_limit_is_exceeded_and_the_calls_of_a_chat_keep_their_order(calls: list[tuple[int, float]]) -> None:
    time = Time()
    limiter = Limiter(time.clock, time.sleep)
    made: dict[int, list[tuple[int, float]]] = defaultdict(list)

    async def call(number: int, chat: int) -> None:
        await limiter.wait(chat, deadline=FOREVER)
        made[chat].append((number, time.clock.monotonic()))

    async def all_calls() -> None:
        async with asyncio.TaskGroup() as tasks:
            for number, (chat, pause) in enumerate(calls):
                tasks.create_task(call(number, chat))
                await asyncio.sleep(0)
                time.clock.advance(pause)

    await time.run(asyncio.ensure_future(asyncio.gather(all_calls())))
    for chat, turns in made.items():
        times = [at for _, at in turns]
        assert [number for number, _ in turns] == sorted(number for number, _ in turns)
        assert most_within(times, 1.0) <= 3
        assert chat > 0 or most_within(times, 60.0) <= 20
    assert most_within([at for turns in made.values() for _, at in turns], 1.0) <= 30


@pytest.mark.parametrize(
    ("chats", "most", "seconds"), [([-1], 20, 60.0), ([1], 3, 2.0), (list(range(1, 200)), 30, 1.0)]
)
async def test_a_flood_uses_what_the_limit_allows_and_no_more(chats: list[int], most: int, seconds: float) -> None:
    time = Time()
    limiter = Limiter(time.clock, time.sleep)
    made: list[float] = []

    async def call(chat: int) -> None:
        await limiter.wait(chat, deadline=FOREVER)
        made.append(time.clock.monotonic())

    await time.run(asyncio.ensure_future(asyncio.gather(*(call(chat) for chat in chats * (200 // len(chats))))))
    assert most - 1 <= most_within(made, seconds) <= most


async def test_a_chat_that_waits_holds_up_no_other() -> None:
    time = Time()
    limiter = Limiter(time.clock, time.sleep)
    limiter.close(1, 20.0)
    started = time.clock.monotonic()
    waiting = asyncio.create_task(limiter.wait(1, deadline=FOREVER))
    await asyncio.sleep(0)
    await limiter.wait(2, deadline=FOREVER)
    assert time.clock.monotonic() == started
    await time.run(asyncio.ensure_future(asyncio.gather(waiting)))
    assert time.clock.monotonic() >= started + 20


async def test_what_takes_longer_than_the_deadline_is_refused_at_once() -> None:
    time = Time()
    limiter = Limiter(time.clock, time.sleep)
    limiter.close(1, 20.0)
    with pytest.raises(TemporarilyUnavailable) as refused:
        await limiter.wait(1, deadline=time.clock.monotonic() + 10)
    assert refused.value.refused
    assert refused.value.retry_after == pytest.approx(20.0)


async def test_two_chats_that_telegram_closes_at_once_mean_all() -> None:
    time = Time()
    limiter = Limiter(time.clock, time.sleep)
    limiter.close(1, 300.0)
    limiter.close(2, 5.0)
    with pytest.raises(TemporarilyUnavailable) as refused:
        await limiter.wait(3, deadline=time.clock.monotonic() + 1)
    assert refused.value.retry_after == pytest.approx(5.0)


async def test_quiet_chats_are_forgotten_and_closed_ones_are_not() -> None:
    time = Time()
    limiter = Limiter(time.clock, time.sleep)
    limiter.close(1, 1e6)
    for chat in range(2, 3000):
        time.clock.advance(2.0)
        await limiter.wait(chat, deadline=FOREVER)
    assert len(limiter._chats) <= 1024
    assert limiter.closed_for(1) > 0
