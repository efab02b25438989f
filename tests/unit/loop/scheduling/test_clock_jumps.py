"""The wall clock jumps, within a life and between two: orders and ids hold all the same."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from agent_common.protocol import TaskList, TasksQuery
from agent_runtime.loop.requests.task_list import list_tasks
from agent_runtime.sessions import Message, history
from agent_testing import ManualClock

from ..support import PATIENCE, FakeModel, World, assignment

HOUR, DAY = 3_600_000, 86_400_000
WRAP = 2**36
"""Milliseconds after which the stamp in an id begins again at zero."""


@pytest.mark.parametrize("jump", [-HOUR, DAY, 0, -30 * DAY])
async def test_a_session_stays_in_order_over_lives(tmp_path: Path, jump: int) -> None:
    clock, found = ManualClock(), list[Message]()
    for life in range(3):
        async with World(tmp_path, clock=clock) as world:
            for number in range(2):
                await world.ended(await world.send(f"life {life}, message {number}"))
            rows = await world.rows("SELECT DISTINCT session_id, id FROM chat_messages")
            [session] = {row["session_id"] for row in rows}
            found = await world.database.read(lambda connection, of=session: list(history.messages(connection, of)))
        clock.set_wall(clock.now_ms() + jump)
    said = [message.parts[0]["text"] for message in found if message.role == "user"]
    assert said == [f"life {life}, message {number}" for life in range(3) for number in range(2)]
    assert [message.role for message in found] == ["user", "assistant"] * 6
    assert len({message.id for message in found}) == 12


async def test_a_session_stays_in_order_when_the_stamps_of_ids_begin_anew(tmp_path: Path) -> None:
    clock = ManualClock((1_800_000_000_000 // WRAP + 1) * WRAP - 2)
    async with World(tmp_path, clock=clock) as world:
        for number in range(4):
            await world.ended(await world.send(str(number)))
            clock.advance(0.001)
        [row, *_] = await world.rows("SELECT session_id FROM chat_messages")
        found = await world.database.read(lambda connection: list(history.messages(connection, row["session_id"])))
    assert [message.parts[0]["text"] for message in found if message.role == "user"] == ["0", "1", "2", "3"]
    assert [message.id for message in found] != sorted(message.id for message in found), "they did not wrap"


async def test_a_queue_stays_in_order_when_the_clock_goes_back_while_it_grows(tmp_path: Path) -> None:
    clock, holding = ManualClock(), asyncio.get_running_loop().create_future()
    async with World(tmp_path, FakeModel([[holding]]), slots=1, clock=clock) as world:
        await world.send("runs", session="first")
        async with asyncio.timeout(PATIENCE):
            await world.model.asked.wait()
        for number in range(4):
            clock.set_wall(clock.now_ms() - HOUR)
            await world.send(f"waits {number}", session=f"s{number}")
    clock.set_wall(clock.now_ms() - DAY)
    async with World(tmp_path, slots=1, clock=clock) as world:
        await world.ended(*world.admission.queues.turns("queued"), *world.admission.queues.turns("running"))
        asked = [str(messages[-1]) for _, messages in world.model.requests]
    waited = [text for text in asked if "waits" in text]
    assert [f"waits {number}" in text for number, text in enumerate(waited)] == [True] * 4


async def test_what_waited_while_the_clock_went_back_comes_before_what_follows(tmp_path: Path) -> None:
    clock, holding = ManualClock(), asyncio.get_running_loop().create_future()
    async with World(tmp_path, FakeModel([[holding]]), clock=clock) as world:
        await world.send("one")
        async with asyncio.timeout(PATIENCE):
            await world.model.asked.wait()
        clock.advance(1)
        session = (await world.send("two")).session.id
    clock.set_wall(clock.now_ms() - DAY)
    async with World(tmp_path, clock=clock) as world:
        await world.ended(*world.admission.queues.all())
        await world.ended(await world.send("three"))
        found = await world.database.read(lambda connection: list(history.messages(connection, session)))
    assert [message.role for message in found] == ["user", "assistant"] * 3
    assert [one.parts[0]["text"] for one in found if one.role == "user"] == ["one", "two", "three"]


@pytest.mark.parametrize("jump", [-DAY, 0])
async def test_tasks_are_listed_newest_first(tmp_path: Path, jump: int) -> None:
    """Also those whose ids do not follow their order, because the stamps in them began anew or went back."""
    clock = ManualClock((1_800_000_000_000 // WRAP + 1) * WRAP - 2)
    pages = list[TaskList]()
    for life in range(2):
        async with World(tmp_path, clock=clock) as world:
            for number in (2 * life, 2 * life + 1):
                task = assignment(task_id=f"t{number}")
                turn = (await world.tasks.assign(task, "operator")).turn
                assert turn is not None
                await world.ended(turn)
                clock.advance(0.001)
            pages = [await list_tasks(world.tasks, None, TasksQuery(limit=2))]
            while pages[-1].next is not None:
                pages.append(await list_tasks(world.tasks, None, TasksQuery(limit=2, after=pages[-1].next)))
        clock.set_wall(clock.now_ms() + jump)
    assert [one.task_id for page in pages for one in page.tasks] == ["t3", "t2", "t1", "t0"]
