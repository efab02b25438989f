"""A machine goes on when its host is killed, and the next process of the host adopts it: no work is lost or doubled.

The machine's monitor is a stand-in, which runs the guest as a process: `make microvm-test` does the same with QEMU.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from threading import Event
from typing import Any

import psutil
import pytest

from agent_host.fleet.machine import SocketDir
from agent_host.fleet.machine.processes import ProcessRecord, read_record
from agent_testing import Call, Hang, Say, ScriptedProvider
from agent_testing.provider import Recorded, Step
from tests.integration.host.live import PATIENCE, Host, catalog

from .test_restore import again, kinds, runs, state, until

pytestmark = pytest.mark.slow
MONITOR = Path(__file__).with_name("stand_in_monitor.py")
NAME = "writer"


class House:
    """A host with one machine, and the model of its agent."""

    def __init__(self, folder: Path, provider: ScriptedProvider, let: Event) -> None:
        self.let, self.provider = let, provider
        self.host = Host(
            folder / "d",
            MESH_MODELS=catalog(folder, provider),
            UPSTREAM_KEY="sk-1",
            MESH_LISTENER_WINDOW=1,  # a second request stays with the host
            MESH_FIRECRACKER=program(folder),
            MESH_VM_IMAGE=image(folder / "image"),
            MESH_VM_VOLUME=64,
        )

    def start(self) -> None:
        self.host.operator.post("/workspaces", json={"id": NAME, "driver": "firecracker"})
        reply = self.host.operator.post(f"/workspaces/{NAME}/start")
        assert reply.status_code == 200, reply.text

    def processes(self) -> tuple[ProcessRecord, ...]:
        """Those on record; none once the machine has ended."""
        record = read_record(SocketDir.for_workspace(self.host.data_dir / "vm", NAME).folder)
        return record.processes if record else ()

    def submit(self, *request_ids: str) -> None:
        for request_id in request_ids:
            body = {"workspace": NAME, "request": {"request_id": request_id, "content": "Leave a mark."}}
            assert self.host.operator.post("/work", json=body).status_code == 202

    def ended(self, request_id: str) -> dict[str, Any]:
        return until(lambda: self.record_at_end(request_id), f"{request_id} has ended")

    def record_at_end(self, request_id: str) -> dict[str, Any] | None:
        record = self.host.operator.get(f"/work/{request_id}").json()
        return None if record["status"] in ("queued", "dispatched", "accepted") else record

    def marks(self) -> str:
        return (self.host.data_dir / f"workspaces/{NAME}/guest/workspace/marks").read_text()


def program(folder: Path) -> Path:
    path = folder / "firecracker"
    path.write_text(f'#!/bin/sh\nexec {sys.executable} {MONITOR} "$@"\n')
    path.chmod(0o755)
    return path


def image(folder: Path) -> Path:
    """An image's folder, whose runtime is this checkout's."""
    folder.mkdir()
    for name in ("vmlinux", "vmlinuz", "initrd.gz", "rootfs.ext4"):
        (folder / name).touch()
    command = [sys.executable, "-m", "agent_runtime", "serve"]
    config = {"Entrypoint": command, "User": f"{os.getuid()}:{os.getgid()}", "Env": [f"PATH={os.environ['PATH']}"]}
    (folder / "image.json").write_text(json.dumps(config))
    return folder


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder whose path is short enough for the sockets of a machine, unlike `tmp_path` with several workers."""
    with tempfile.TemporaryDirectory(prefix="vm-") as name:
        yield Path(name)


@pytest.fixture
def house(folder: Path) -> Iterator[House]:
    let = Event()

    def reply(request: Recorded) -> Step:
        """A command that leaves a mark; then an answer, once it is let."""
        if request.messages[-1]["role"] != "tool":
            return Call("bash", {"command": "echo mark >> marks"})
        return Say("It is done.") if let.is_set() else Hang(reply=Say("It is done."))

    with ScriptedProvider(reply) as provider:
        house = House(folder, provider, let)
        try:
            with house.host:
                house.start()
                yield house
        finally:
            for one in house.processes():
                if one.running:
                    os.kill(one.pid, signal.SIGKILL)


def test_a_machine_at_work_is_adopted_by_one_host_after_the_other(house: House) -> None:
    host, before = house.host, house.processes()
    house.submit("first", "second")
    house.provider.wait_for(2, PATIENCE)  # the first has made its mark, and waits for the model
    for life in (1, 2):
        host.process.kill9()
        assert [one.running for one in before] == [True]
        host.start()
        until(lambda life=life: kinds(host, NAME).count("adopted") == life, "it is adopted")
        until(lambda: host.operator.get(f"/workspaces/{NAME}").json()["mediationReady"]["ready"], "it is attached")
    house.let.set()
    house.provider.release()
    for request_id in ("first", "second"):
        record = house.ended(request_id)
        assert (record["status"], record["attempts"], record["result"]["content"]) == ("resulted", 1, "It is done.")
        entries = host.operator.get("/audit", params={"request_id": request_id}).json()["entries"]
        assert [entry["type"] for entry in entries].count("resulted") == 1
    assert house.marks() == "mark\nmark\n"
    assert house.processes() == before
    assert host.operator.get(f"/workspaces/{NAME}/api/status").json()["agent_id"] == NAME
    again(host)
    assert [one.running for one in before] == [False], "a host that stops in order stops its machines"
    until(lambda: runs(host, NAME) and "restored" in kinds(host, NAME), "it is started again")


def test_a_machine_that_was_adopted_is_watched(house: House) -> None:
    again(house.host, kill=True)
    until(lambda: "adopted" in kinds(house.host, NAME), "it is adopted")
    [monitor] = house.processes()
    os.kill(monitor.pid, signal.SIGKILL)
    until(lambda: house.processes() not in ((), (monitor,)) and runs(house.host, NAME), "it is started again")


def test_a_machine_whose_start_was_not_finished_is_started_anew(house: House) -> None:
    before = house.processes()
    house.host.process.kill9()
    path = SocketDir.for_workspace(house.host.data_dir / "vm", NAME).folder / "machine.json"
    path.write_text(path.read_text().replace('"booted":true', '"booted":false'))
    house.host.start()
    until(lambda: "restored" in kinds(house.host, NAME), "it is started")
    assert [one.running for one in before] == [False]
    assert house.processes() != before


def test_what_is_not_meant_to_run_is_ended_and_then_dies_with_the_host(house: House) -> None:
    before = house.processes()
    again(house.host, kill=True, MESH_RESTORE="false")
    until(lambda: not before[0].running, "it is ended")
    assert state(house.host, NAME) == ("stopped", "stopped")
    house.start()
    assert house.processes() == ()
    family = psutil.Process(house.host.process.pid).children(recursive=True)
    house.host.process.kill9()
    assert psutil.wait_procs(family, timeout=60)[1] == []
