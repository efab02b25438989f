"""What an earlier process of the host has left running: adopted if it is meant to run, ended if not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Set
from contextlib import asynccontextmanager, closing
from pathlib import Path

import pytest

from agent_common.clock import SystemClock
from agent_host.access import TokenStore
from agent_host.database import open_database
from agent_host.fleet import EXTERNAL, ExternalDriver, Fleet, Restorer, Workspaces
from agent_host.fleet.driver import StartFailed, StopFailed

from .test_supervisor import Driver, Mortal


class Surviving(Driver):
    """A driver whose runtimes go on when the host's process ends; they are known by the workspace's id."""

    def __init__(self) -> None:
        super().__init__()
        self.left: dict[str, Mortal] = {}
        self.deaf = False
        self.broken: set[str] = set()
        self.asked: list[tuple[str, str]] = []

    async def find_orphans(self) -> Set[str]:
        if self.deaf:
            raise StartFailed("the engine does not answer")
        return self.left.keys()

    async def open_sockets(self, workspace_id: str) -> None:
        self.asked.append(("open", workspace_id))

    async def adopt(self, workspace_id: str, data_dir: Path) -> Mortal | None:
        self.asked.append(("adopt", workspace_id))
        if self.deaf:
            raise StartFailed("the engine does not answer")
        if workspace_id in self.broken:
            raise RuntimeError("not foreseen")
        return self.left.get(workspace_id)

    async def end_orphan(self, workspace_id: str) -> None:
        self.asked.append(("end", workspace_id))
        if self.deaf:
            raise StartFailed("the engine does not answer")
        if (left := self.left.pop(workspace_id, None)) is not None:
            left.end.set()


@asynccontextmanager
async def host(folder: Path, driver: Surviving) -> AsyncGenerator[Fleet]:
    """One process of the host. It dies at the end of the block: its runtimes go on."""
    clock = SystemClock()
    with closing(open_database(f"sqlite:///{folder}/mesh.db")) as database:
        drivers = {"box": driver, EXTERNAL: ExternalDriver()}
        fleet = Fleet(Workspaces(database, folder, clock), drivers, TokenStore(database, clock), "")
        yield fleet
        for agent in fleet._running.values():
            agent.watch.cancel()


@pytest.fixture
async def driver(tmp_path: Path) -> Surviving:
    """Of a host that has died with `writer` and `reader` running."""
    driver = Surviving()
    async with host(tmp_path, driver) as fleet:
        for name in ("reader", "writer"):
            await fleet.create(name)
            await fleet.start(name)
            driver.left[name] = driver.lives[-1]
    return driver


async def restore(fleet: Fleet, *, restored: bool = True) -> list[tuple[str, str, str | None]]:
    """What the restorer writes to the audit trail."""
    events: list[tuple[str, str, str | None]] = []
    restorer = Restorer(fleet, await fleet.open(restore=restored), lambda *event: events.append(event))
    async with asyncio.timeout(60):
        await restorer.run()
    return sorted(events)


async def test_what_is_meant_to_run_is_adopted_and_not_started_again(tmp_path: Path, driver: Surviving) -> None:
    async with host(tmp_path, driver) as fleet:
        assert await restore(fleet) == [("reader", "adopted", None), ("writer", "adopted", None)]
        assert len(driver.lives) == 2
        agent = await fleet.running_agent("writer")
        assert agent.runtime is driver.left["writer"]
        assert (await fleet.get("writer")).state == "running"
        driver.left["writer"].end.set()
        await asyncio.wait([agent.watch], timeout=60)
        assert (await fleet.get("writer")).state == "failed", "it is watched like any other"


async def test_an_agent_of_another_program_is_new_when_it_is_made_and_adopted_by_the_next_host(tmp_path: Path) -> None:
    async with host(tmp_path, Surviving()) as fleet:
        await fleet.create("far", EXTERNAL)
        made = await fleet.running_agent("far")
        assert (made.external, made.adopted) == (True, False)
    async with host(tmp_path, Surviving()) as fleet:
        await fleet.open()
        assert (await fleet.running_agent("far")).adopted


async def test_what_has_ended_meanwhile_is_started(tmp_path: Path, driver: Surviving) -> None:
    del driver.left["writer"]
    async with host(tmp_path, driver) as fleet:
        assert await restore(fleet) == [("reader", "adopted", None), ("writer", "restored", None)]
        assert len(driver.lives) == 3


async def test_a_fault_of_one_does_not_keep_the_others_down(tmp_path: Path, driver: Surviving) -> None:
    driver.broken.add("reader")
    failed: list[str] = []
    async with host(tmp_path, driver) as fleet:
        fleet.on_exit = failed.append
        assert await restore(fleet) == [("reader", "not_restored", "not foreseen"), ("writer", "adopted", None)]
    assert failed == ["reader"], "it is tried again"


async def test_what_cannot_be_adopted_is_started_anew(tmp_path: Path, driver: Surviving) -> None:
    async with host(tmp_path, driver) as fleet:
        ids = await fleet.open()
        driver.deaf = True
        await fleet.start("writer")
        assert len(driver.lives) == 3
        driver.deaf = False
        assert ids == ["reader", "writer"]


async def test_what_is_not_meant_to_run_is_ended(tmp_path: Path, driver: Surviving) -> None:
    driver.left["deleted"] = Mortal()
    left = dict(driver.left)
    async with host(tmp_path, driver) as fleet:
        fleet.is_fenced = lambda workspace: workspace == "writer"
        assert await restore(fleet) == [("reader", "adopted", None)]
        assert [name for name, life in left.items() if life.end.is_set()] == ["writer", "deleted"]


async def test_a_host_that_restores_nothing_ends_all(tmp_path: Path, driver: Surviving) -> None:
    left = list(driver.left.values())
    async with host(tmp_path, driver) as fleet:
        assert await restore(fleet, restored=False) == []
        assert all(life.end.is_set() for life in left)
        assert {(one.state, one.desired_state) for one in await fleet.list()} == {("stopped", "stopped")}


async def test_one_that_is_stopped_before_it_is_adopted_is_ended(tmp_path: Path, driver: Surviving) -> None:
    left = dict(driver.left)
    async with host(tmp_path, driver) as fleet:
        await fleet.open()
        driver.deaf = True
        with pytest.raises(StopFailed, match="the engine does not answer"):
            await fleet.stop("writer")
        driver.deaf = False
        assert (await fleet.stop("writer")).desired_state == "stopped"
        assert (await fleet.quarantine("reader")).desired_state == "stopped"
        assert all(life.end.is_set() for life in left.values())
        await fleet.start("writer")
        assert driver.asked == [("end", "writer"), ("end", "writer"), ("end", "reader")], "nothing is left to adopt"


async def test_an_engine_that_does_not_answer_is_asked_again(tmp_path: Path, driver: Surviving) -> None:
    async with host(tmp_path, driver) as fleet:
        fleet.is_fenced = lambda workspace: workspace == "writer"
        await fleet.open()
        driver.deaf = True
        assert not await fleet.orphans.end_unwanted(fleet.lock, fleet.is_running)
        driver.deaf = False
        assert await fleet.orphans.end_unwanted(fleet.lock, fleet.is_running)
        assert driver.left.keys() == {"reader"}
