"""The host is killed while a container, a microVM and two processes work: all of their work ends, and none twice."""

from __future__ import annotations

import os
import shlex
import signal
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from typing import Any

import psutil
import pytest

from agent_testing import Call, Hang, Say, ScriptedProvider
from agent_testing.provider import Recorded, Step
from tests.image.built.engine import IMAGE as CONTAINER_IMAGE
from tests.image.built.engine import LAUNCHED, podman, program

from .house import MONITOR, House, eventually, host_with_machine
from .machine import PATIENCE

pytestmark = pytest.mark.timeout(600)
DRIVERS = {"guest": "qemu", "boxed": "container", "one": "process", "two": "process"}
SURVIVORS = ("guest", "boxed")
MARK = "echo mark >> marks; sync"
CONTAINERS = "name=^agent-[0-9a-f]{12}$"


class Model:
    """Has every agent leave a mark, and answers them once it is let."""

    def __init__(self) -> None:
        self.let = Event()

    def reply(self, request: Recorded) -> Step:
        if request.messages[-1]["role"] != "tool":
            return Call("bash", {"command": MARK})
        return Say("It is done.") if self.let.is_set() else Hang()


@contextmanager
def killed_in_the_middle(folder: Path, drivers: dict[str, str]) -> Generator[tuple[House, Model]]:
    """A host whose agents have made their first mark. The host is dead, each agent has a second request waiting."""
    model = Model()
    settings = {
        "MESH_LISTENER_WINDOW": 1,  # the second request stays with the host
        "MESH_CONTAINER_IMAGE": CONTAINER_IMAGE,
        "MESH_CONTAINER_ENGINE": shlex.join(program()),
        "MESH_CONTAINER_OPTIONS": shlex.join(LAUNCHED),
    }
    with (
        ScriptedProvider(model.reply, models=("big-1", "vectors-1")) as provider,
        host_with_machine(folder, provider, **settings) as house,
    ):
        for name, driver in drivers.items():
            if name != house.name:
                made = house.operator.post("/workspaces", json={"id": name, "driver": driver})
                assert made.status_code == 201, made.text
            assert house.operator.post(f"/workspaces/{name}/start").status_code == 200
        for name in (*drivers, *drivers):
            assert submit(house, name) == 202
        provider.wait_for(2 * len(drivers), PATIENCE)
        yield house, model


def submit(house: House, name: str) -> int:
    """Hand in the first request of the workspace, or else the second."""
    second = house.operator.get(f"/work/{name}-1").status_code == 200
    request = {"request_id": f"{name}-{2 if second else 1}", "content": "Leave a mark."}
    return house.operator.post("/work", json={"workspace": name, "request": request}).status_code


def restart(house: House, model: Model, **settings: str) -> None:
    house.provider.release()
    model.let.set()
    house.host.env |= settings
    house.host.start()


def boot_id(house: House) -> str:
    return house.run("cat", "/proc/sys/kernel/random/boot_id")


def container() -> str:
    shape = "{{.Id}} {{.State.StartedAt}} {{.State.Pid}}"
    return podman("inspect", "--format", shape, *podman("ps", "--filter", CONTAINERS, "--quiet").split())


def marks(house: House, name: str) -> str:
    if name in SURVIVORS:
        argv = {"argv": ["cat", "/data/workspace/marks"]}
        return house.operator.post(f"/workspaces/{name}/exec", json=argv).json()["stdout"]
    return (house.host.data_dir / f"workspaces/{name}/workspace/marks").read_text()


def how(house: House, name: str) -> list[str]:
    """How the host's next life has brought the workspace back."""
    rows = house.operator.get("/audit", params={"workspace": name, "limit": "1000"}).json()["entries"]
    return [row["type"] for row in rows if row["type"] in ("adopted", "restored")]


def assert_all_work_ends_once(house: House, names: Any) -> None:
    for request_id in [f"{name}-{number}" for name in names for number in (1, 2)]:
        record = house.ended(request_id)
        assert (record["status"], record["attempts"]) == ("resulted", 1), record
        assert record["result"]["content"] == "It is done.", record
        entries = house.operator.get("/audit", params={"request_id": request_id}).json()["entries"]
        assert [entry["type"] for entry in entries].count("resulted") == 1
    eventually(lambda: all(how(house, name) for name in names), "the host has brought back all of them")
    assert {name: marks(house, name) for name in names} == dict.fromkeys(names, "mark\nmark\n")


def test_all_work_ends_and_what_survives_is_not_started_again(tmp_path: Path) -> None:
    with killed_in_the_middle(tmp_path, DRIVERS) as (house, model):
        before = (boot_id(house), house.processes(), container())
        family = psutil.Process(house.host.process.pid).children(recursive=True)
        machine = {pid for pids in before[1].values() for pid in pids}
        house.host.process.kill9()
        mortal = [one for one in family if one.pid not in machine and one.name() != "conmon"]
        assert psutil.wait_procs(mortal, timeout=10)[1] == [], "processes end with their host"
        assert house.processes() == before[1]
        restart(house, model)
        assert_all_work_ends_once(house, DRIVERS)
        assert (boot_id(house), house.processes(), container()) == before
        assert {name: how(house, name) for name in DRIVERS} == {
            name: ["adopted" if name in SURVIVORS else "restored"] for name in DRIVERS
        }
        assert house.host.process.terminate(PATIENCE) == 0
        assert house.processes() == {}, "a host that stops in order stops its machines"
        assert "agent-init: the runtime ended with exit code 0" in house.console()


def test_a_machine_without_its_vsock_is_started_anew(tmp_path: Path) -> None:
    with killed_in_the_middle(tmp_path, {"guest": "qemu"}) as (house, model):
        before, monitor = boot_id(house), house.monitor
        house.host.process.kill9()
        [backend] = [pids[0] for name, pids in house.processes().items() if name != MONITOR]
        os.kill(backend, signal.SIGKILL)
        restart(house, model)
        assert_all_work_ends_once(house, ["guest"])
        assert not psutil.pid_exists(monitor)
        assert boot_id(house) != before
        assert how(house, "guest") == ["restored"]

        house.host.process.kill9()
        restart(house, model)
        eventually(lambda: "adopted" in how(house, "guest"), "it is adopted")
        os.kill(house.monitor, signal.SIGKILL)
        eventually(lambda: house.look()["state"] == "failed", "an adopted machine is watched like any other")
        eventually(lambda: house.look()["mediationReady"]["ready"], "it is started again")

        house.host.process.kill9()
        assert len(house.processes()) == 2
        restart(house, model, MESH_RESTORE="false")
        eventually(lambda: not house.processes(), "it is not meant to run any more")
        assert house.look()["state"] == "stopped"
