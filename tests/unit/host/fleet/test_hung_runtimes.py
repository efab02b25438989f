"""A runtime that answers no more is killed; one that answers now and then, or never could be asked, is not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, closing
from pathlib import Path
from unittest.mock import Mock

import pytest
from sqlalchemy.exc import OperationalError

from agent_common.clock import SystemClock
from agent_host.access import TokenStore
from agent_host.database import open_database
from agent_host.fleet import Fleet, HungRuntimes, LaunchRequest, RunningAgent, Workspaces
from agent_host.fleet.driver import NotOffered, P
from agent_host.fleet.hung_runtimes import CHECKS

from .test_supervisor import Driver, Mortal

PATIENCE = 60.0
ANSWER = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"
Event = tuple[str, str, str | None]


class Asked(Mortal):
    """A runtime that answers some of the requests, by their number."""

    def __init__(self, answers: Callable[[int], bool]) -> None:
        super().__init__()
        self._answers, self.asked = answers, 0

    async def connect(self, protocol: Callable[[], P]) -> P:
        number, self.asked = self.asked, self.asked + 1
        if not self._answers(number):
            raise ConnectionRefusedError("nobody is there")
        made = protocol()
        made.connection_made(Mock(write=lambda _: made.data_received(ANSWER)))
        return made


class Closed(Asked):
    """A runtime without a way to its API."""

    async def connect(self, protocol: Callable[[], P]) -> P:
        self.asked += 1
        raise NotOffered("no")


class OneRuntime(Driver):
    def __init__(self, runtime: Asked) -> None:
        super().__init__()
        self._runtime = runtime

    async def start(self, launch: LaunchRequest) -> Mortal:
        return self._runtime


@asynccontextmanager
async def checked(folder: Path, runtime: Asked, *, attached: bool = False) -> AsyncGenerator[tuple[Fleet, list[Event]]]:
    """A fleet with this runtime, which is checked all the time, and what is recorded of it."""
    events: list[Event] = []
    with closing(open_database(f"sqlite:///{folder / 'mesh.db'}")) as database:
        clock = SystemClock()
        workspaces = Workspaces(database, folder / "workspaces", clock)
        fleet = Fleet(workspaces, {"process": OneRuntime(runtime)}, TokenStore(database, clock), "")
        await fleet.open()
        await fleet.create("writer", "process")
        await fleet.start("writer")
        hung = HungRuntimes(fleet, 0.1, lambda _: attached, lambda *event: events.append(event))
        hung.start()
        yield fleet, events
        await hung.close()
        await fleet.close()


async def until(check: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not check():
            await asyncio.sleep(0.005)


async def test_one_that_answers_no_more_counts_as_ended(tmp_path: Path) -> None:
    runtime = Asked(lambda number: number == 0)
    async with checked(tmp_path, runtime) as (fleet, events):
        await until(lambda: not fleet.is_running("writer"))
        async with fleet.lock("writer"):  # its end is on record then
            found = await fleet.get("writer")
        assert (found.state, found.desired_state) == ("failed", "running")
        assert events == [("writer", "hung", "no answer for 0.1 s (MESH_HANG_TIMEOUT): killed")]
        assert runtime.asked == 1 + CHECKS


@pytest.mark.parametrize(
    "runtime",
    [Asked(lambda number: number % CHECKS == 0), Asked(lambda _: False), Closed(lambda _: False)],
    ids=["answers now and then", "never could be asked", "has no way to its API"],
)
async def test_others_are_left_alone(tmp_path: Path, runtime: Asked) -> None:
    async with checked(tmp_path, runtime) as (fleet, events):
        await until(lambda: runtime.asked > 3 * CHECKS)
        assert fleet.is_running("writer")
        assert events == []


async def test_a_check_that_fails_does_not_end_all_checks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runtime = Asked(lambda number: number == 0)
    async with checked(tmp_path, runtime) as (fleet, _):
        found, faults = fleet.running_agent, 3

        async def failing(workspace_id: str) -> RunningAgent:
            nonlocal faults
            faults -= 1
            if faults >= 0:
                raise OperationalError("SELECT", {}, Exception("the database is away"))
            return await found(workspace_id)

        monkeypatch.setattr(fleet, "running_agent", failing)
        await until(lambda: not fleet.is_running("writer"))
        assert faults < 0


async def test_one_that_is_at_its_channel_is_not_asked(tmp_path: Path) -> None:
    runtime = Asked(lambda _: False)
    async with checked(tmp_path, runtime, attached=True) as (fleet, events):
        await asyncio.sleep(0.3)
        assert fleet.is_running("writer")
        assert (runtime.asked, events) == (0, [])
