"""The fleet and its process driver, with a stand-in for the runtime: what it is given, and every way it can end."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Callable, Collection
from contextlib import AsyncExitStack, asynccontextmanager, closing
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import psutil
import pytest
from sqlalchemy.exc import OperationalError

from agent_host.access import AccessGuard, TokenStore
from agent_host.database import open_database
from agent_host.errors import Conflict, InvalidRequest, NotFound, RequestError, Unauthorized
from agent_host.fleet import Fleet, ProcessDriver, Workspaces
from agent_host.fleet.console import Console
from agent_testing import LiveProcess, ManualClock

from .live import PATIENCE

STAND_IN = Path(__file__).with_name("stand_in.py")
MESH = "http://127.0.0.1:8420"
OUTLET = "http://127.0.0.1:8421"


@asynccontextmanager
async def opened(
    folder: Path,
    mode: str = "good",
    *,
    patience: float = PATIENCE,
    grace: float = 5,
    egress: str | None = None,
    withheld: Collection[str] = (),
) -> AsyncGenerator[Fleet]:
    async with AsyncExitStack() as stack:
        database = stack.enter_context(closing(open_database(f"sqlite:///{folder / 'mesh.db'}")))
        clock = ManualClock()
        driver = ProcessDriver(patience, grace, [sys.executable, str(STAND_IN), mode], withheld=withheld)
        workspaces = Workspaces(database, folder / "workspaces", clock)
        fleet = Fleet(workspaces, {"process": driver}, TokenStore(database, clock), MESH, egress)
        await fleet.open()
        stack.push_async_callback(fleet.close)
        yield fleet


def pid_of(home: Path, name: str = "pid") -> int:
    return int((home / name).read_text())


async def alter(folder: Path, statement: str) -> None:
    def work() -> None:
        with closing(sqlite3.connect(folder / "mesh.db", timeout=PATIENCE)) as database:
            database.execute(statement)

    await asyncio.to_thread(work)


async def until(check: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not check():
            await asyncio.sleep(0.01)


def gone(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


async def test_a_workspace_from_its_making_to_its_end(tmp_path: Path) -> None:
    async with opened(tmp_path) as fleet:
        made = await fleet.create("writer", "process")
        assert (made.id, made.driver, made.state, made.detail) == ("writer", "process", "stopped", None)
        assert made.url.startswith("http://127.0.0.1:")
        assert made.data_dir == tmp_path / "workspaces/writer"
        assert made.token not in repr(made)

        running = await fleet.start("writer")
        assert (running.state, running.url) == ("running", made.url)
        async with httpx.AsyncClient(trust_env=False) as client:
            assert (await client.get(f"{made.url}/readyz")).status_code == 200
        pid = pid_of(made.data_dir)
        assert (await fleet.start("writer")).state == "running"
        assert pid_of(made.data_dir) == pid, "a second start changes nothing"
        assert [workspace.id for workspace in await fleet.list()] == ["writer"]

        assert (await fleet.stop("writer")).state == "stopped"
        assert gone(pid)
        assert (await fleet.stop("writer")).state == "stopped"
        assert (await fleet.start("writer")).state == "running"
        assert pid_of(made.data_dir) != pid
        assert "this is the stand-in" in (made.data_dir / "runtime.log").read_text()
    assert gone(pid_of(made.data_dir)), "closing the fleet stops what runs"


def name_variables(path: Path, *names: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    server = {"command": "x", "env": {f"N{number}": name for number, name in enumerate(names)}}
    path.write_text(json.dumps({"mcpServers": {"notes": server}}))


@pytest.mark.parametrize(
    ("confinement", "expected"), [("auto", {"DOCS_KEY", "NOTES_KEY", "OTHER_KEY"}), ("off", set[str]())]
)
async def test_what_a_runtime_is_given_for_its_mcp_servers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, confinement: str, expected: set[str]
) -> None:
    """What the operator's file names, and never a credential of the host, whatever the file says."""
    of_the_host = ("MESH_ADMIN_TOKEN", "OPENAI_API_KEY", "ANTHROPIC_API_KEY_FILE", "ROUTER_KEY", "ROUTER_KEY_FILE")
    names = ("DOCS_KEY", "NOTES_KEY", "OTHER_KEY", *of_the_host, "PGPASSWORD", "https_proxy", "AGENT_EGRESS_URL")
    for name in (*names, "UNNAMED_KEY"):
        monkeypatch.setenv(name, "secret")
    monkeypatch.setenv("AGENT_CONFINEMENT", confinement)
    async with opened(tmp_path, withheld={"ROUTER_KEY"}) as fleet:
        made = await fleet.create("writer", "process")
        texts = ("Bearer ${DOCS_KEY}", "${NOTES_KEY:-none}", "{env:OTHER_KEY}", *(f"${{{name}}}" for name in names[3:]))
        name_variables(made.data_dir / "mcp.json", *texts)
        await fleet.start("writer")
        given = json.loads((made.data_dir / "environment.json").read_text())
    assert given.keys() & {*names, "UNNAMED_KEY"} == expected


async def test_what_a_runtime_is_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (
        "OPENAI_API_KEY",
        "MESH_ADMIN_TOKEN",
        "AWS_SECRET_ACCESS_KEY",
        "AGENT_LLM_BASE_URL",
        "AGENT_EGRESS_URL",
        "AGENT_TOKEN_FILE",
    ):
        monkeypatch.setenv(name, "secret")
    monkeypatch.setenv("AGENT_MAX_QUEUE", "7")
    monkeypatch.setenv("AGENT_TOKEN", "not this one")
    async with opened(tmp_path, egress=OUTLET) as fleet:
        made = await fleet.create("writer", "process")
        await fleet.start("writer")
        given = json.loads((made.data_dir / "environment.json").read_text())
        guard = AccessGuard(fleet._tokens, ManualClock())
        assert (await guard.identify(f"Bearer {given['AGENT_MESH_TOKEN']}")).agent_id == "writer"
        await fleet.stop("writer")
        await fleet.start("writer")
        with pytest.raises(Unauthorized):
            await AccessGuard(fleet._tokens, ManualClock()).identify(f"Bearer {given['AGENT_MESH_TOKEN']}")
    assert given["AGENT_ID"] == "writer"
    assert given["AGENT_TOKEN"] == made.token
    assert (given["AGENT_MESH_URL"], given["AGENT_EGRESS_URL"]) == (MESH, OUTLET)
    assert given["AGENT_DATA_DIR"] == str(made.data_dir)
    assert (given["AGENT_HOST"], given["AGENT_PORT"]) == ("127.0.0.1", str(urlsplit(made.url).port))
    assert given["AGENT_MAX_QUEUE"] == "7"
    assert given["PATH"] == os.environ["PATH"]
    leaked = {name for name in given if name.startswith(("OPENAI_", "MESH_", "AWS_"))}
    assert leaked | (given.keys() & {"AGENT_LLM_BASE_URL", "AGENT_TOKEN_FILE"}) == set()
    (tmp_path / "closed").mkdir()
    async with opened(tmp_path / "closed") as fleet:
        made = await fleet.create("writer", "process")
        await fleet.start("writer")
        given = json.loads((made.data_dir / "environment.json").read_text())
    assert "AGENT_EGRESS_URL" not in given


async def test_ids_and_drivers_are_checked(tmp_path: Path) -> None:
    async with opened(tmp_path) as fleet:
        await fleet.create("writer", "process")
        with pytest.raises(Conflict, match="there is a workspace 'writer' already"):
            await fleet.create("writer", "process")
        with pytest.raises(InvalidRequest, match="driver 'magic' must be one of process"):
            await fleet.create("reader", "magic")
        with pytest.raises(InvalidRequest, match="driver 'container' needs MESH_CONTAINER_IMAGE at the host"):
            await fleet.create("reader", "container")
        with pytest.raises(InvalidRequest):
            await fleet.create("../up", "process")
        for call in (fleet.get, fleet.start, fleet.stop):
            with pytest.raises(NotFound):
                await call("nobody")


async def test_a_runtime_that_ends_at_once(tmp_path: Path) -> None:
    async with opened(tmp_path, "broken") as fleet:
        made = await fleet.create("writer", "process")
        (made.data_dir).mkdir(parents=True)
        (made.data_dir / "runtime.log").write_text("words of an earlier life\n")
        with pytest.raises(RequestError) as caught:
            await fleet.start("writer")
        assert (caught.value.status, caught.value.code) == (502, "start_failed")
        why, about = caught.value.message.split("\n")
        assert why.endswith("did not start: the disk is full")
        assert (
            about == f"the runtime ended with exit code 1 before it was ready; its log is {made.data_dir}/runtime.log"
        )
        failed = await fleet.get("writer")
        assert failed.state == "failed"
        assert failed.detail is not None
        assert "the disk is full" in failed.detail


async def test_a_runtime_that_never_gets_ready(tmp_path: Path) -> None:
    async with opened(tmp_path, "deaf", patience=1) as fleet:
        made = await fleet.create("writer", "process")
        with pytest.raises(
            RequestError, match=r"not ready within 1 s \(MESH_START_TIMEOUT\); its last answer: still thinking"
        ):
            await fleet.start("writer")
        assert gone(pid_of(made.data_dir))


async def test_of_an_answer_without_end_only_the_beginning_is_read(tmp_path: Path) -> None:
    async with opened(tmp_path, "talker", patience=3) as fleet:
        await fleet.create("writer", "process")
        with pytest.raises(RequestError, match="its last answer: still thinking and") as failed:
            await fleet.start("writer")
        assert str(failed.value).count("thinking") < 50


async def test_a_program_that_is_not_there(tmp_path: Path) -> None:
    async with opened(tmp_path) as fleet:
        fleet._drivers = {"process": ProcessDriver(PATIENCE, 1, ["/no/such/program"])}
        await fleet.create("writer", "process")
        with pytest.raises(RequestError, match="No such file or directory"):
            await fleet.start("writer")


async def test_a_runtime_that_ignores_sigterm_is_killed(tmp_path: Path) -> None:
    async with opened(tmp_path, "stubborn", grace=0.2) as fleet:
        made = await fleet.create("writer", "process")
        await fleet.start("writer")
        assert (await fleet.stop("writer")).state == "stopped"
        assert gone(pid_of(made.data_dir))


async def test_a_runtime_ends_though_its_state_cannot_be_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with opened(tmp_path) as fleet:
        made = await fleet.create("writer", "process")
        await fleet.start("writer")
        await alter(tmp_path, "ALTER TABLE workspaces RENAME TO hidden")
        with pytest.raises(OperationalError):
            await fleet.stop("writer")
        assert gone(pid_of(made.data_dir))
        assert "workspace_state_not_written" in capsys.readouterr().out
        await alter(tmp_path, "ALTER TABLE hidden RENAME TO workspaces")
        assert (await fleet.get("writer")).state == "running", "nobody could write it down"
        assert (await fleet.stop("writer")).state == "stopped"
        assert (await fleet.start("writer")).state == "running"


async def test_a_stop_that_is_cancelled_ends_the_runtime_at_once(tmp_path: Path) -> None:
    async with opened(tmp_path, "stubborn", grace=60) as fleet:
        made = await fleet.create("writer", "process")
        await fleet.start("writer")
        stop = asyncio.create_task(fleet.stop("writer"))
        async with asyncio.timeout(PATIENCE):
            while (await fleet.get("writer")).state != "stopping":
                await asyncio.sleep(0.001)
        stop.cancel()
        with pytest.raises(asyncio.CancelledError):
            await stop
        async with asyncio.timeout(PATIENCE):
            while not gone(pid_of(made.data_dir)):
                await asyncio.sleep(0.01)
        assert (await fleet.stop("writer")).desired_state == "stopped"


async def test_a_stop_that_is_cancelled_before_the_runtime_was_asked_ends_it_too(tmp_path: Path) -> None:
    async with opened(tmp_path, "stubborn", grace=60) as fleet:
        made = await fleet.create("writer", "process")
        await fleet.start("writer")
        stop = asyncio.create_task(fleet.stop("writer"))
        for _ in range(3):  # it has the lock, and waits for the database
            await asyncio.sleep(0)
        stop.cancel()
        with pytest.raises(asyncio.CancelledError):
            await stop
        assert (await fleet.get("writer")).state == "stopping"
        async with asyncio.timeout(PATIENCE):
            while not gone(pid_of(made.data_dir)):
                await asyncio.sleep(0.01)


async def test_closing_ends_every_runtime_whatever_the_database_does(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with opened(tmp_path) as fleet:
        homes = [(await fleet.create(name, "process")).data_dir for name in ("reader", "writer")]
        for home in homes:
            await fleet.start(home.name)
        await alter(tmp_path, "DROP TABLE workspaces")
        await fleet.close()
        assert all(gone(pid_of(home)) for home in homes)
    assert "workspace_close_failed" in capsys.readouterr().out


async def test_the_log_of_one_earlier_life_is_kept(tmp_path: Path) -> None:
    async with opened(tmp_path) as fleet:
        made = await fleet.create("writer", "process")
        log = made.data_dir / "runtime.log"
        for life in range(3):
            await fleet.start("writer")
            await until(lambda: log.exists() and log.read_text() == "this is the stand-in\n")
            await fleet.stop("writer")
            log.write_text(f"life {life}\n")
        await fleet.start("writer")
        await until(log.exists)
        assert {path.name: path.read_text() for path in made.data_dir.glob("runtime.log*")} == {
            "runtime.log": "this is the stand-in\n",
            "runtime.log.1": "life 2\n",
        }


def test_only_the_end_of_a_long_log_is_told(tmp_path: Path) -> None:
    log = Console(tmp_path / "runtime.log")
    with log.path.open("wb") as file:
        file.truncate(2**43)  # far more than fits into memory, and no block on the disk
        file.seek(0, os.SEEK_END)
        file.write(b"x" * 3_000 + b"the end")
    assert log.read_tail(2_000, this_run=True) == f"{'x' * 1_993}the end"


async def test_what_a_runtime_leaves_behind_is_ended_too(tmp_path: Path) -> None:
    async with opened(tmp_path, "litter") as fleet:
        made = await fleet.create("writer", "process")
        await fleet.start("writer")
        await fleet.stop("writer")
        await until(lambda: gone(pid_of(made.data_dir, "child")))


async def test_a_runtime_that_dies_is_noticed_and_can_be_started_again(tmp_path: Path) -> None:
    async with opened(tmp_path, "litter") as fleet:
        made = await fleet.create("writer", "process")
        await fleet.start("writer")
        os.kill(pid_of(made.data_dir), signal.SIGKILL)
        async with asyncio.timeout(PATIENCE):
            while (workspace := await fleet.get("writer")).state != "failed":
                await asyncio.sleep(0.01)
        assert workspace.detail == "the runtime was ended by SIGKILL"
        await until(lambda: gone(pid_of(made.data_dir, "child")))
        again = await fleet.start("writer")
        assert (again.state, again.detail) == ("running", None)


async def test_a_place_that_was_taken_meanwhile_is_left(tmp_path: Path) -> None:
    async with opened(tmp_path) as fleet:
        made = await fleet.create("writer", "process")
        with socket.create_server(("127.0.0.1", urlsplit(made.url).port or 0)):
            running = await fleet.start("writer")
        assert running.url != made.url
        assert (await fleet.get("writer")).url == running.url


async def test_calls_for_one_workspace_take_turns(tmp_path: Path) -> None:
    async with opened(tmp_path, "slow") as fleet:
        await fleet.create("writer", "process")
        first, second, last = await asyncio.gather(fleet.start("writer"), fleet.start("writer"), fleet.stop("writer"))
        assert (first.state, second.state, last.state) == ("running", "running", "stopped")


async def test_a_fleet_that_closes_starts_nothing(tmp_path: Path) -> None:
    async with opened(tmp_path) as fleet:
        await fleet.create("writer", "process")
        await fleet.close()
        with pytest.raises(RequestError, match="the host is stopping") as caught:
            await fleet.start("writer")
        assert (caught.value.status, caught.value.code) == (503, "draining")


async def test_what_was_meant_to_run_is_known_after_a_new_start_of_the_host(tmp_path: Path) -> None:
    async with opened(tmp_path) as fleet:
        for name in ("reader", "writer"):
            await fleet.create(name, "process")
            await fleet.start(name)
        await fleet.stop("reader")
        token = json.loads((tmp_path / "workspaces/writer/environment.json").read_text())["AGENT_MESH_TOKEN"]
    async with opened(tmp_path) as fleet:
        assert [(one.state, one.desired_state) for one in await fleet.list()] == [
            ("stopped", "stopped"),
            ("stopped", "running"),
        ]
        assert await fleet.open() == ["writer"]
        guard = AccessGuard(fleet._tokens, ManualClock())
        assert (await guard.identify(f"Bearer {token}")).agent_id == "writer", "it may still run"
        fleet.is_fenced = lambda workspace: workspace == "writer"
        assert await fleet.open() == []
        assert (await fleet.get("writer")).desired_state == "stopped"
        with pytest.raises(Unauthorized):
            await AccessGuard(fleet._tokens, ManualClock()).identify(f"Bearer {token}")


async def test_a_host_that_restores_nothing_forgets_what_was_meant_to_run(tmp_path: Path) -> None:
    async with opened(tmp_path) as fleet:
        await fleet.create("writer", "process")
        await fleet.start("writer")
    async with opened(tmp_path) as fleet:
        assert await fleet.open(restore=False) == []
        assert await fleet.open() == []


async def test_a_workspace_whose_driver_is_gone_says_so(tmp_path: Path) -> None:
    async with opened(tmp_path) as fleet:
        await fleet.create("writer", "process")
        await fleet.start("writer")
    async with opened(tmp_path) as fleet:
        fleet._drivers = {}
        assert await fleet.open() == []
        assert (await fleet.get("writer")).detail == "this host has no driver 'process'"
        with pytest.raises(Conflict, match="no driver 'process'"):
            await fleet.start("writer")
        assert (await fleet.get("writer")).desired_state == "running", "it runs again once the driver is back"


async def test_a_start_under_way_is_given_up_when_the_host_stops(tmp_path: Path) -> None:
    async with opened(tmp_path, "deaf") as fleet:
        made = await fleet.create("writer", "process")
        starting = asyncio.create_task(fleet.start("writer"))
        await until((made.data_dir / "pid").exists)
        await fleet.close()
        with pytest.raises(RequestError, match="the host is stopping"):
            await starting
        assert gone(pid_of(made.data_dir))
        assert (await fleet.get("writer")).desired_state == "running"


KEEPER = f"""
import asyncio, sys, uvloop
from pathlib import Path
from agent_host.fleet import LaunchRequest, ProcessDriver

async def main():
    home = Path(sys.argv[1])
    driver = ProcessDriver(20, 5, [sys.executable, {str(STAND_IN)!r}, "stubborn"])
    launch = LaunchRequest("a", driver.allocate_url(), home, "t", "http://127.0.0.1:1", "m")
    child = await driver.start(launch)
    print("started", child.pid, flush=True)
    await asyncio.Event().wait()

uvloop.run(main())
"""


def test_no_runtime_outlives_a_host_that_is_killed(tmp_path: Path) -> None:
    with LiveProcess([sys.executable, "-c", KEEPER, tmp_path]) as keeper:
        child = int(keeper.wait_for_output(r"started (\d+)")[1])
        assert not gone(child)
        keeper.kill9()
        deadline = time.monotonic() + 2
        while not gone(child):
            assert time.monotonic() < deadline, "it lives on without its host"
            time.sleep(0.01)


def test_a_leash_whose_host_is_dead_already_starts_nothing(tmp_path: Path) -> None:
    leash = Path(__file__).parents[3] / "agent_host/fleet/die_with_parent.py"
    mark = tmp_path / "mark"
    done = subprocess.run([sys.executable, leash, "1", "touch", str(mark)], timeout=PATIENCE, check=False)
    assert done.returncode == 1
    assert not mark.exists()
