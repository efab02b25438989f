"""Drivers of programs that are not here, against stand-ins that note what they are told."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import tempfile
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from agent_host.fleet.driver import LaunchRequest, StartFailed
from agent_host.fleet.drivers.container import ContainerDriver, ContainerSettings, run_arguments, run_engine
from agent_host.fleet.drivers.microagent import MicroagentDriver
from agent_host.fleet.machine import HostSockets, SocketDir

STAND_IN = """
import json, os, pathlib, sys
here = pathlib.Path(__file__).parent
with (here / "told").open("a") as file:
    file.write(json.dumps(sys.argv[1:]) + "\\n")
if sys.argv[1] == "run":
    (here / "environment").write_text(json.dumps(dict(os.environ)))
answers = json.loads((here / "answers").read_text())
said = answers.get(sys.argv[1], {"out": ""})
sys.stdout.write(said.get("out", ""))
sys.stderr.write(said.get("err", ""))
sys.exit(said.get("code", 0))
"""


class Program:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "program.py").write_text(STAND_IN)
        self.command = (sys.executable, str(folder / "program.py"))
        self.answers({})

    def answers(self, answers: dict) -> None:
        fresh = self.folder / "answers.new"
        fresh.write_text(json.dumps(answers))
        fresh.replace(self.folder / "answers")  # somebody may read them at this moment

    @property
    def environment(self) -> dict[str, str]:
        """That of `run`."""
        return json.loads((self.folder / "environment").read_text())

    @property
    def told(self) -> list[list[str]]:
        path = self.folder / "told"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


@pytest.fixture
def program() -> Iterator[Program]:
    with tempfile.TemporaryDirectory(prefix="p") as folder:
        yield Program(Path(folder))


def launch(folder: Path) -> LaunchRequest:
    return LaunchRequest(
        "writer",
        "",
        folder / "ws",
        "secret-token",
        "http://host",
        "secret-mesh",
        mediation_url="unix:/x",
        mediation_key="secret-key",
    )


def inspected(state: str, ready: bool) -> dict:
    return {"out": json.dumps({"state": state, "mediationReady": {"ready": ready}})}


async def test_a_container_has_no_network_no_capability_and_no_secret_in_its_arguments(program: Program) -> None:
    settings = ContainerSettings(program.command, "image:1", program.folder / "vm", 5, 1)
    driver, mine = ContainerDriver(settings, HostSockets(), {"AGENT_MODEL": "m", "OPENAI_API_KEY": "secret"}), None
    mine = launch(program.folder)
    program.answers({"inspect": {"out": "true 42"}, "exec": {"out": "fine"}})
    assert driver.mediation_address("writer") == f"unix:{SocketDir.for_workspace(settings.run_dir, 'writer').uds}_2048"
    await driver.create("writer", mine.data_dir)
    runtime = await driver.start(mine)
    said = next(told for told in program.told if told[0] == "run")
    for pair in (("--network", "none"), ("--cap-drop", "all"), ("--user", "10001:10001"), ("--memory", "512m")):
        assert said[said.index(pair[0]) + 1] == pair[1]
    assert "--read-only" in said
    given = {name: program.environment[name] for flag, name in pairwise(said) if flag == "--env"}
    assert given["AGENT_MODEL"] == "m"
    assert given["AGENT_MEDIATION_URL"] == "unix:/run/mesh/v.sock_2048"
    assert not any("secret-" in part or "OPENAI" in part for part in said)
    assert (await runtime.status()).pid == 42
    assert (await runtime.exec(["ls"])).stdout == "fine"
    key = SocketDir.for_workspace(settings.run_dir, "writer").folder / "secrets/mediation.key"
    assert (key.read_text(), key.stat().st_mode & 0o777) == ("secret-key", 0o600)
    await runtime.stop()
    assert [told[0] for told in program.told[-3:]] == ["stop", "kill", "rm"]
    assert not key.exists()


async def test_a_container_that_may_still_be_there_is_not_taken_for_gone(program: Program) -> None:
    driver = ContainerDriver(ContainerSettings(program.command, "i", program.folder / "vm", 5, 1), HostSockets(), {})
    program.answers({"inspect": {"out": "true 42"}, "exec": {"out": "fine"}})
    await driver.create("writer", program.folder / "ws")
    runtime = await driver.start(launch(program.folder))
    program.answers({"rm": {"code": 125, "err": "device busy"}, "ps": {"out": "0123abcd"}})
    with pytest.raises(StartFailed, match=r"may still be there.*device busy"):
        await runtime.quarantine()
    program.answers({"rm": {"code": 125, "err": "no engine"}, "ps": {"code": 125}})
    with pytest.raises(StartFailed, match=r"may still be there.*no engine"):
        await runtime.stop()
    with pytest.raises(StartFailed, match="may still be there"):
        await driver.start(launch(program.folder))
    program.answers({"rm": {"code": 1, "err": "no such container"}})
    await runtime.stop(at_once=True)
    assert [told[0] for told in program.told[-3:]] == ["kill", "rm", "ps"]


@pytest.mark.slow
async def test_a_watch_that_breaks_is_not_the_end_of_a_container(program: Program) -> None:
    driver = ContainerDriver(ContainerSettings(program.command, "i", program.folder / "vm", 5, 1), HostSockets(), {})
    program.answers({"inspect": {"out": "true 42"}, "exec": {"out": "fine"}, "wait": {"code": 125, "err": "oops"}})
    await driver.create("writer", program.folder / "ws")
    runtime = await driver.start(launch(program.folder))
    watch = asyncio.create_task(runtime.wait())
    async with asyncio.timeout(60):
        while [told[0] for told in program.told].count("wait") < 2:
            await asyncio.sleep(0.01)
    program.answers({"inspect": {"out": "true 42"}, "wait": {"out": "137"}})
    assert "137" in await watch


async def test_what_an_engine_says_is_bounded_in_size_and_time(program: Program) -> None:
    flood = "import sys\nfor _ in range(64): sys.stdout.write('x' * (1 << 20))\nprint('the end')"
    said = await run_engine((sys.executable, "-c", flood))
    assert said.stdout.endswith("the end\n")
    assert len(said.stdout) <= 1 << 20
    hangs = (sys.executable, "-c", "import time; time.sleep(600)")
    assert (await run_engine(hangs, "rm", seconds=0.2, check=False)).code is None
    with pytest.raises(StartFailed, match=r"rm failed: it took longer than 0\.2 s"):
        await run_engine(hangs, "rm", seconds=0.2)


async def test_what_an_engine_leaves_running_is_not_waited_for() -> None:
    """It may hold the pipes open: what watches a container lives as long as that."""
    async with asyncio.timeout(60):
        said = await run_engine(("sh", "-c"), "sleep 60 & echo $!; echo more >&2")
    os.kill(int(said.stdout), signal.SIGKILL)
    assert (said.code, said.stderr) == (0, "more\n")


async def test_a_container_that_ends_at_once_says_what_it_said(program: Program) -> None:
    program.answers({"exec": {"code": 125}, "inspect": {"out": "false 0"}, "logs": {"out": "no disk"}})
    driver = ContainerDriver(ContainerSettings(program.command, "i", program.folder / "vm", 5, 1), HostSockets(), {})
    await driver.create("writer", program.folder / "ws")
    with pytest.raises(StartFailed, match="the container ended: no disk"):
        await driver.start(launch(program.folder))


async def test_a_container_of_an_earlier_process_is_known_by_its_labels_and_taken_up(program: Program) -> None:
    settings = ContainerSettings(program.command, "i", program.folder / "vm", 5, 1)
    driver = ContainerDriver(settings, HostSockets(), {})
    await driver.create("writer", program.folder / "ws")
    program.answers({"inspect": {"out": "true 42"}, "exec": {"out": "fine"}})
    said = run_arguments(settings, SocketDir(program.folder / "seat"), "n", launch(program.folder), ())
    labels = [said[index + 1] for index, part in enumerate(said) if part == "--label"]
    assert labels == ["agent-mesh.workspace=writer", f"agent-mesh.folder={settings.run_dir}"]
    program.answers({"ps": {"out": "0123\n4567\n"}, "container": {"out": "writer\nreader\n"}})
    assert await driver.find_orphans() == {"writer", "reader"}
    assert program.told[-2] == ["ps", "--all", "--quiet", "--filter", f"label={labels[1]}"]
    program.answers({"container": {"out": str(settings.run_dir)}, "inspect": {"out": "false 0"}})
    assert await driver.adopt("writer", program.folder / "ws") is None, "it has ended"


async def test_a_container_of_another_host_is_left_alone(program: Program) -> None:
    driver = ContainerDriver(ContainerSettings(program.command, "i", program.folder / "vm", 5, 1), HostSockets(), {})
    program.answers({"container": {"out": "/other/vm\n"}})
    await driver.create("writer", program.folder / "ws")
    with pytest.raises(StartFailed, match="belongs to another host, with the folder /other/vm"):
        await driver.start(launch(program.folder))
    assert await driver.adopt("writer", program.folder) is None
    await driver.remove("writer")
    assert {told[0] for told in program.told} == {"container"}


async def test_no_setting_of_a_container_is_in_the_arguments_of_its_engine(program: Program) -> None:
    env = {"AGENT_SKILL_INDEX": "https://reader:password@index.example/simple"}
    driver = ContainerDriver(ContainerSettings(program.command, "i", program.folder / "vm", 5, 1), HostSockets(), env)
    program.answers({"exec": {"code": 125}, "inspect": {"out": "false 0"}})
    await driver.create("writer", program.folder / "ws")
    with pytest.raises(StartFailed):
        await driver.start(launch(program.folder))
    [run] = [told for told in program.told if told[0] == "run"]
    assert "AGENT_SKILL_INDEX" in run
    assert "password" in program.environment["AGENT_SKILL_INDEX"]
    assert "password" not in str(program.told)


def test_a_containers_data_is_its_own(tmp_path: Path) -> None:
    settings = ContainerSettings(("podman",), "i", tmp_path / "vm", 5, 1)
    said = run_arguments(settings, SocketDir(tmp_path / "seat"), "n", launch(tmp_path), ())
    assert f"{tmp_path / 'ws' / 'data'}:/data:rw" in said


async def test_microagent_is_ready_when_its_mediation_is(program: Program) -> None:
    program.answers({"start": {"out": "{}"}, "inspect": inspected("running", True), "stop": {"out": "{}"}})
    runtime = await MicroagentDriver(program.command, 5, 0.01).start(launch(program.folder))
    assert (await runtime.status()).detail == "running"
    program.answers(
        {"exec": {"out": json.dumps({"exit_code": 3, "stdout": "o", "stderr": "e"})}, "halt": {"out": "{}"}}
    )
    assert (await runtime.exec(["ls", "--json"])).code == 3
    assert program.told[-1] == ["exec", "--json", "writer", "--", "ls", "--json"]
    await runtime.stop(at_once=True)
    assert program.told[-1] == ["halt", "--json", "writer"]


async def test_microagent_says_when_its_machine_is_paused(program: Program) -> None:
    program.answers({"start": {"out": "{}"}, "inspect": inspected("running", True)})
    runtime = await MicroagentDriver(program.command, 5, 0.01).start(launch(program.folder))
    told: asyncio.Queue[bool] = asyncio.Queue()
    runtime.on_paused = told.put_nowait
    watch = asyncio.create_task(runtime.wait())
    for state, paused in (("paused", True), ("running", False), ("paused", True), ("stopped", False)):
        program.answers({"inspect": inspected(state, False)})
        assert await asyncio.wait_for(told.get(), 30) == paused, state
    assert await watch == "ended: stopped"
    assert told.empty()


async def test_microagent_that_is_no_longer_watched_is_not_paused(program: Program) -> None:
    program.answers({"start": {"out": "{}"}, "inspect": inspected("running", True)})
    runtime = await MicroagentDriver(program.command, 5, 0.01).start(launch(program.folder))
    told: asyncio.Queue[bool] = asyncio.Queue()
    runtime.on_paused = told.put_nowait
    watch = asyncio.create_task(runtime.wait())
    program.answers({"inspect": inspected("paused", False)})
    assert await asyncio.wait_for(told.get(), 30)
    watch.cancel()
    await asyncio.wait([watch])
    assert told.get_nowait() is False


@pytest.mark.slow
async def test_microagent_that_is_not_ready_in_time_is_stopped(program: Program) -> None:
    program.answers({"start": {"out": "{}"}, "inspect": inspected("running", False), "halt": {"out": "{}"}})
    with pytest.raises(StartFailed, match="not ready within 2 s"):
        await MicroagentDriver(program.command, 2, 0.01).start(launch(program.folder))
    assert program.told[-1][0] == "halt"


@pytest.mark.parametrize("said", ["", "[]", "null", "not json"])
async def test_nonsense_of_microagent_is_a_failed_start(program: Program, said: str) -> None:
    program.answers({"inspect": {"out": said}})
    with pytest.raises(StartFailed, match="answers no"):
        await MicroagentDriver(program.command, 1).create("writer", program.folder)
