"""Quarantine in the middle of a start, and runtimes that do not end when they are told to."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import pytest

from agent_common.clock import SystemClock
from agent_host.access import TokenStore
from agent_host.database import open_database
from agent_host.errors import Conflict
from agent_host.fleet import Fleet, LaunchRequest, Workspaces
from agent_host.fleet.driver import StartFailed, StopFailed

from .test_supervisor import Driver, Mortal


class Slow(Driver):
    """Its starts take until they are let go on."""

    def __init__(self) -> None:
        super().__init__()
        self.began, self.let, self.given_up = asyncio.Event(), asyncio.Event(), 0

    async def start(self, launch: LaunchRequest) -> Mortal:
        self.began.set()
        try:
            await self.let.wait()
        except asyncio.CancelledError:
            self.given_up += 1
            raise
        self.lives.append(Stubborn())
        return self.lives[-1]


class Stubborn(Mortal):
    def __init__(self) -> None:
        super().__init__()
        self.failures, self.hangs, self.asked = 0, False, asyncio.Event()
        self.failure: Exception = StartFailed("the engine does not answer")

    async def stop(self, *, at_once: bool = False) -> None:
        self.asked.set()
        if self.hangs:
            await asyncio.Event().wait()
        if self.failures:
            self.failures -= 1
            raise self.failure
        await super().stop(at_once=at_once)


@pytest.fixture
def driver() -> Slow:
    return Slow()


@pytest.fixture
async def fleet(tmp_path: Path, driver: Slow) -> AsyncIterator[Fleet]:
    clock = SystemClock()
    with closing(open_database(f"sqlite:///{tmp_path}/mesh.db")) as database:
        made = Fleet(Workspaces(database, tmp_path, clock), {"slow": driver}, TokenStore(database, clock), "")
        await made.create("writer")
        yield made
        await made.close()


async def test_quarantine_ends_a_start_and_does_not_wait_for_it(fleet: Fleet, driver: Slow) -> None:
    starting = asyncio.create_task(fleet.start("writer"))
    await driver.began.wait()
    assert (await fleet.quarantine("writer")).state == "stopped"
    assert (driver.given_up, driver.lives) == (1, [])
    with pytest.raises(Conflict, match="put in quarantine"):
        await starting
    driver.let.set()
    assert (await fleet.start("writer")).state == "running"


async def test_a_caller_who_gives_up_gives_the_start_up(fleet: Fleet, driver: Slow) -> None:
    starting = asyncio.create_task(fleet.start("writer"))
    await driver.began.wait()
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert driver.given_up == 1


async def test_whoever_is_fenced_meanwhile_is_not_started(fleet: Fleet, driver: Slow) -> None:
    fleet.is_fenced = lambda workspace: workspace == "writer"
    with pytest.raises(Conflict, match="in quarantine"):
        await fleet.start("writer")
    assert not driver.began.is_set()
    assert (await fleet.get("writer")).state == "stopped"


async def test_one_that_does_not_end_is_known_until_it_does(fleet: Fleet, driver: Slow) -> None:
    driver.let.set()
    await fleet.start("writer")
    life = driver.lives[-1]
    assert isinstance(life, Stubborn)
    life.failures = 2
    with pytest.raises(StopFailed, match="could not be stopped: the engine does not answer"):
        await fleet.stop("writer")
    assert fleet.is_running("writer")
    seen = await fleet.get("writer")
    assert (seen.state, seen.detail) == ("stopping", "the engine does not answer")
    with pytest.raises(StopFailed):
        await fleet.stop("writer")
    assert (await fleet.stop("writer")).state == "stopped"


async def test_one_that_dies_and_cannot_be_cleared_away_is_noticed(fleet: Fleet, driver: Slow) -> None:
    driver.let.set()
    died = asyncio.Event()
    fleet.on_exit = lambda _workspace: died.set()
    await fleet.start("writer")
    life = driver.lives[-1]
    assert isinstance(life, Stubborn)
    life.failures = 1
    life.end.set()
    async with asyncio.timeout(60):
        await died.wait()
    assert (await fleet.get("writer")).state == "failed"


async def test_whatever_its_stop_raises_its_tokens_are_revoked(fleet: Fleet, driver: Slow) -> None:
    driver.let.set()
    await fleet.start("writer")
    revoked: list[str] = []
    fleet.on_revoked = revoked.append
    life = driver.lives[-1]
    assert isinstance(life, Stubborn)
    life.failures, life.failure = 1, RecursionError("too deep")
    with pytest.raises(StopFailed, match="could not be stopped: too deep"):
        await fleet.stop("writer")
    assert revoked == ["writer"]
    assert (await fleet.stop("writer")).state == "stopped"


async def test_a_stop_that_is_given_up_revokes_the_tokens_all_the_same(fleet: Fleet, driver: Slow) -> None:
    driver.let.set()
    await fleet.start("writer")
    revoked: list[str] = []
    fleet.on_revoked = revoked.append
    life = driver.lives[-1]
    assert isinstance(life, Stubborn)
    life.hangs = True
    stopping = asyncio.create_task(fleet.stop("writer"))
    async with asyncio.timeout(60):
        await life.asked.wait()
    stopping.cancel()
    with pytest.raises(asyncio.CancelledError):
        await stopping
    assert revoked == ["writer"]
    assert (await fleet.get("writer")).detail == "the stop was interrupted"
    life.hangs = False
