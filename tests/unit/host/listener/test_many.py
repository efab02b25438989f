"""Many agents at a time, and databases that fail."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
from sqlalchemy import event, text

from agent_host.errors import Unavailable
from agent_host.listener import ListenerLimits

from .agent import Agent
from .conftest import Room

MANY = 500


@pytest.mark.slow
@pytest.mark.timeout(180)
async def test_five_hundred_agents(tmp_path: Path) -> None:
    room = Room(tmp_path, ListenerLimits(unproven=MANY + 10, close_timeout=0.5))
    await room.open()
    names = [f"w{number}" for number in range(MANY)]
    try:
        for name in names:
            await room.enrol(name)
        agents = await asyncio.gather(*(room.attached(name) for name in names))
        serving = [asyncio.create_task(agent.serve()) for agent in agents]
        await asyncio.gather(*(room.submit(f"r-{name}", name=name) for name in names))
        records = await asyncio.gather(*(room.listener.wait(f"r-{name}", 100) for name in names))
        assert {record.status for record in records} == {"resulted"}
        await _stop(serving)
    finally:
        await room.close()


async def _stop(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


@pytest.mark.slow
@pytest.mark.machine
@pytest.mark.timeout(120)
async def test_memory_stays_flat_while_agents_come_and_go(room: Room) -> None:
    async def come_and_go(times: int) -> None:
        for _ in range(times):
            agent = Agent(room.listener.workspaces.address, "a", room.keys["a"])
            async with agent:
                await agent.attach()
                agent.abort()
            await room.until(lambda: room.listener.attached == 0)
            room.pass_time(0.1)  # more often than ten times a second it would have to wait

    await come_and_go(100)
    gc.collect()
    before = psutil.Process().memory_info().rss
    await come_and_go(300)
    gc.collect()
    assert psutil.Process().memory_info().rss - before < 8 << 20


@contextmanager
def failing(room: Room) -> Generator[None]:
    """The disk is full for a while."""

    def refuse(_: object) -> None:
        raise OSError("the disk is full")

    engine = room.database._engine
    event.listen(engine, "commit", refuse)
    try:
        yield
    finally:
        event.remove(engine, "commit", refuse)


async def test_a_database_that_fails_refuses_work_and_loses_no_result(room: Room) -> None:
    agent = await room.attached()
    await room.submit("r1")
    request = await agent.request()
    agent.accept(request)
    await room.stands("accepted", "r1")
    with failing(room):
        with pytest.raises(Unavailable):
            await room.submit("r2")
        agent.result(request)
        assert room.listener.failing
        await room.until(lambda: not room.listener.ledger.active["r1"].active)
        assert [frame for frame in agent.seen if frame.get("ctl") == "ack"] == []
    await agent.expect("ack")
    assert (await room.ended("r1")).status == "resulted"
    await room.submit("r3")
    assert (await agent.request())["request_id"] == "r3"
    assert room.listener.failing is None
    rows = await room.database.run(lambda connection: connection.execute(text("SELECT request_id FROM work")).all())
    assert {row[0] for row in rows} == {"r1", "r3"}
