"""Slots of called agents: all for one while nobody else wants one, and the next one for who has the fewest."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from agent_runtime.loop.subagents.agent_slots import REFUSED_SECONDS, AgentSlots
from agent_testing import ManualClock

SLOTS = 3


class Calls:
    """Calls that hold a slot until they are ended."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.slots = AgentSlots(SLOTS, self.clock.monotonic)
        self.began: list[str] = []
        self.tasks: dict[str, asyncio.Task[None]] = {}
        self._ends: dict[str, asyncio.Event] = {}

    async def begin(self, *names: str) -> None:
        """The first letter of a call is its principal."""
        for name in names:
            self._ends[name] = asyncio.Event()
            self.tasks[name] = asyncio.create_task(self._call(name))
            await asyncio.sleep(0)

    async def _call(self, name: str) -> None:
        async with self.slots.wait_for_slot(name[0]):
            self.began.append(name)
            await self._ends[name].wait()

    async def end(self, *names: str) -> None:
        for name in names:
            self._ends[name].set()
            await self.tasks[name]
            await asyncio.sleep(0)


async def test_who_is_alone_has_all_and_who_waits_with_the_fewest_is_next() -> None:
    calls = Calls()
    await calls.begin("a1", "a2", "a3", "a4", "a5", "b1", "b2")
    assert calls.began == ["a1", "a2", "a3"]
    await calls.end("a1", "a2", "a3")
    assert calls.began[3:] == ["b1", "a4", "a5"], "b had none; then each had one, and a waited for longer"
    await calls.end("b1", "a4", "a5")
    assert calls.began[6:] == ["b2"]
    await calls.end("b2")
    assert [calls.slots.take("a") for _ in range(SLOTS + 1)] == [True] * SLOTS + [False], "all are free again"


@pytest.mark.parametrize("moment", ["while it waits", "as it is granted"])
async def test_a_cancelled_call_leaves_its_slot_to_the_next(moment: str) -> None:
    calls = Calls()
    await calls.begin("a1", "a2", "a3", "b1", "c1")
    if moment == "while it waits":
        calls.tasks["b1"].cancel()
        await asyncio.gather(calls.tasks["b1"], return_exceptions=True)
        await calls.end("a1")
    else:
        calls.slots.release("a")  # as the end of one would
        calls.tasks["b1"].cancel()
        await asyncio.gather(calls.tasks["b1"], return_exceptions=True)
        await asyncio.sleep(0)
    assert calls.began == ["a1", "a2", "a3", "c1"]


def test_a_slot_is_kept_for_a_minute_for_who_was_refused_one() -> None:
    clock = ManualClock()
    slots = AgentSlots(SLOTS, clock.monotonic)
    take: Callable[[str], bool] = slots.take
    assert [take("a") for _ in range(SLOTS + 1)] == [True, True, True, False]
    assert not take("b")
    slots.release("a")
    assert not take("a"), "it is for b, who has fewer"
    assert take("b")
    slots.release("a")
    assert take("a"), "b has been served"
    assert not take("b")
    slots.release("a")
    clock.advance(REFUSED_SECONDS + 1)
    assert take("a"), "b has not come back"
