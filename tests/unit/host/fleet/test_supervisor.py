"""What dies is started again, less and less often; what is fenced stays down."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.exc import SQLAlchemyError

from agent_common.clock import SystemClock
from agent_host.access import TokenStore
from agent_host.database import open_database
from agent_host.fleet import CommandOutcome, Fleet, LaunchRequest, Status, Supervisor, Workspace, Workspaces
from agent_host.fleet.driver import NotOffered, P, StartFailed
from agent_host.fleet.workspace import State


class Clock(SystemClock):
    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now


class Mortal:
    """A runtime that ends when it is told to."""

    url = ""

    def __init__(self) -> None:
        self.end = asyncio.Event()

    async def wait(self) -> str:
        await self.end.wait()
        return "ended"

    async def stop(self, *, at_once: bool = False) -> None:
        self.end.set()

    async def status(self) -> Status:
        return Status(not self.end.is_set(), "")

    async def connect(self, protocol: Callable[[], P]) -> P:
        raise NotOffered("no")

    async def console(self) -> str:
        return ""

    async def exec(self, argv: Sequence[str], *, timeout: float = 1) -> CommandOutcome:  # noqa: ASYNC109
        raise NotOffered("no")

    async def quarantine(self) -> None:
        await self.stop()


class Driver:
    passes_settings = True
    sees_host_files = False

    def __init__(self) -> None:
        self.lives: list[Mortal] = []
        self.failures = 0

    def allocate_url(self) -> str:
        return ""

    def mediation_address(self, workspace_id: str) -> str | None:
        return None

    async def remove(self, workspace_id: str) -> None:
        return

    async def create(self, workspace_id: str, data_dir: Path) -> None:
        return

    async def start(self, launch: LaunchRequest) -> Mortal:
        if self.failures:
            self.failures -= 1
            raise StartFailed("not today")
        self.lives.append(Mortal())
        return self.lives[-1]


class Failing(Workspaces):
    """Workspaces whose database fails for a time."""

    fails = False
    failures = 0

    async def get(self, workspace_id: str) -> Workspace:
        self._check()
        return await super().get(workspace_id)

    async def set_state(self, workspace_id: str, state: State, detail: str | None = None, **more: Any) -> Workspace:
        self._check()
        return await super().set_state(workspace_id, state, detail, **more)

    def _check(self) -> None:
        if self.fails:
            self.failures += 1
            raise SQLAlchemyError("the database does not answer")


class Ward:
    """A fleet of one, whose supervisor waits as long as the test lets it."""

    def __init__(self, fleet: Fleet, driver: Driver, clock: Clock, workspaces: Failing) -> None:
        self.fleet, self.driver, self.clock, self.workspaces = fleet, driver, clock, workspaces
        self.waits: list[float] = []
        self.may = True
        self.let: asyncio.Queue[None] = asyncio.Queue()
        self.supervisor = Supervisor(fleet, clock, lambda _: self.may, self._sleep)

    async def _sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        await self.let.get()

    async def until(self, lives: int, waits: int) -> None:
        async with asyncio.timeout(60):
            while len(self.driver.lives) < lives or len(self.waits) < waits:
                await asyncio.sleep(0.005)
            if not self.let.empty() or lives > waits:
                while (await self.fleet.get("writer")).state != "running":
                    await asyncio.sleep(0.005)

    async def die_and_come_back(self, up: float) -> None:
        lives, waits = len(self.driver.lives), len(self.waits)
        self.clock.now += up
        self.driver.lives[-1].end.set()
        await self.until(lives, waits + 1)
        self.let.put_nowait(None)
        await self.until(lives + 1, waits + 1)
        async with asyncio.timeout(60):
            while (await self.fleet.get("writer")).state != "running":
                await asyncio.sleep(0.005)


@pytest.fixture
async def ward(tmp_path: Path):
    clock, driver = Clock(), Driver()
    with closing(open_database(f"sqlite:///{tmp_path}/mesh.db")) as database:
        workspaces = Failing(database, tmp_path, clock)
        fleet = Fleet(workspaces, {"mortal": driver}, TokenStore(database, clock), "")
        made = Ward(fleet, driver, clock, workspaces)
        await fleet.create("writer")
        await fleet.start("writer")
        yield made
        await made.supervisor.close()
        await fleet.close()


async def test_the_waits_double_and_begin_anew_after_a_steady_life(ward: Ward) -> None:
    for _ in range(7):
        await ward.die_and_come_back(1)
    assert ward.waits == [1, 2, 4, 8, 16, 30, 30]
    await ward.die_and_come_back(31)
    assert ward.waits[-1] == 1


async def test_one_that_does_not_start_is_tried_again(ward: Ward) -> None:
    ward.driver.failures = 2
    ward.driver.lives[-1].end.set()
    for count in (1, 2, 3):
        await ward.until(1, count)
        ward.let.put_nowait(None)
    await ward.until(2, 3)
    assert ward.waits == [1, 2, 4]


async def test_one_that_dies_while_the_database_fails_is_started_again(ward: Ward) -> None:
    ward.workspaces.fails = True
    ward.driver.lives[-1].end.set()
    for count in (1, 2):
        await ward.until(1, count)
        ward.let.put_nowait(None)
    await ward.until(1, 3)
    assert ward.workspaces.failures == 3, "its end was not written, and it was looked for twice"
    ward.workspaces.fails = False
    ward.let.put_nowait(None)
    await ward.until(2, 3)


async def test_what_is_fenced_or_stopped_stays_down(ward: Ward) -> None:
    ward.may = False
    ward.driver.lives[-1].end.set()
    await ward.until(1, 1)
    ward.let.put_nowait(None)
    await asyncio.sleep(0)
    assert (await ward.fleet.get("writer")).state == "failed"
    assert len(ward.driver.lives) == 1
