"""Requests as turns of the real loop: those that wait behind others, and those that the host stops."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from agent_common.protocol.work import Cancel, Progress, ResumeOk
from agent_runtime.mediation import ConstraintService, Outbox, TurnWorker, WorkRules, WorkService
from agent_runtime.mediation.ledger import ledger as book
from agent_runtime.ports import TextPiece
from tests.unit.loop.support import FakeModel, World, say, until

from .support import Wire, request


@asynccontextmanager
async def clerk(world: World, folder: Path) -> AsyncGenerator[tuple[WorkService, Wire]]:
    await world.database.write(lambda connection: [one.apply(connection) for one in book.MIGRATIONS])
    service = WorkService(
        database=world.database,
        clock=world.clock,
        worker=TurnWorker(world.hallway, world.chats, world.tasks),
        constraints=ConstraintService(folder / "constraints"),
        rules=WorkRules(4, loose=False),
        outbox=Outbox("agent", world.database, world.clock),
    )
    wire = Wire()
    service.attach(wire, ResumeOk())
    yield service, wire
    await service.close()


def kinds(wire: Wire) -> list[str]:
    return [frame.kind for frame in wire.said if isinstance(frame, Progress)]


async def test_the_host_learns_when_work_that_waited_begins(tmp_path: Path) -> None:
    before, during = asyncio.Event(), asyncio.Event()
    model = FakeModel([[before.wait(), *say("first")], [during.wait(), *say("second")]])
    async with World(tmp_path, model, slots=1) as world, clerk(world, tmp_path) as (service, wire):
        await world.send("a long one")
        service.submit(request())
        await until(lambda: bool(wire.signals("accepting")))
        assert kinds(wire) == ["queued"]
        again = Wire()
        service.attach(again, ResumeOk())
        assert kinds(again) == ["queued"], "another connection is told, too"
        before.set()
        await until(lambda: kinds(again) == ["queued", "started"])
        during.set()
        await until(lambda: bool(again.results()))
        assert again.results()[0].content == "second"


@pytest.mark.parametrize("queued", [True, False])
async def test_work_that_the_host_stops_at_its_deadline_is_yielded(tmp_path: Path, queued: bool) -> None:
    gate = asyncio.Event()
    model = FakeModel([[TextPiece("half"), gate.wait(), *say("rest")]])
    async with World(tmp_path, model, slots=1) as world, clerk(world, tmp_path) as (service, wire):
        if queued:
            await world.send("a long one")
        service.submit(request())
        await until(lambda: bool(wire.signals("accepting")))
        await until(model.asked.is_set)
        service.cancel(Cancel(request_id="req-1", reason="deadline_exceeded"))
        await until(lambda: bool(wire.results()))
        result = wire.results()[0]
        assert (result.status, result.content) == ("yielded", None if queued else "half")
        assert result.error == "deadline_exceeded: it has taken longer than the host allows"
        gate.set()
