"""Machines that an earlier process of the host has left: found by their records, and ended by their processes."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_host.fleet.driver import StartFailed
from agent_host.fleet.drivers.firecracker import FirecrackerDriver
from agent_host.fleet.machine import HostSockets, MachineRecord, MachineSettings, SocketDir
from agent_host.fleet.machine.processes import ProcessRecord, read_record, write_record


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "600"], start_new_session=True) as process:
        yield process
        process.kill()


@pytest.fixture
def driver(tmp_path: Path) -> FirecrackerDriver:
    return FirecrackerDriver(MachineSettings(tmp_path, tmp_path / "vm", 5, 1), HostSockets(), "firecracker")


def left(folder: Path, workspace: str, driver: str, *processes: ProcessRecord, booted: bool = True) -> Path:
    """Write the record of a machine, and return its folder."""
    socket_dir = SocketDir.create_for_workspace(folder / "vm", workspace)
    record = MachineRecord.empty(driver, workspace)
    write_record(socket_dir.folder, record.model_copy(update={"processes": processes, "booted": booted}))
    return socket_dir.folder


async def test_machines_of_this_driver_are_found(tmp_path: Path, driver: FirecrackerDriver) -> None:
    assert await driver.find_orphans() == frozenset()
    left(tmp_path, "writer", "firecracker")
    left(tmp_path, "other", "qemu")
    (left(tmp_path, "damaged", "firecracker") / "machine.json").write_text("{")
    (tmp_path / "vm/kvm.json").touch()
    assert await driver.find_orphans() == {"writer"}


async def test_one_that_is_not_complete_is_ended_and_not_adopted(
    tmp_path: Path, driver: FirecrackerDriver, sleeper: subprocess.Popen[bytes]
) -> None:
    alive = ProcessRecord.of("it", sleeper.pid)
    folder = left(tmp_path, "writer", "firecracker", alive, booted=False)
    assert await driver.adopt("writer", tmp_path) is None
    assert (sleeper.wait(10), read_record(folder)) == (-9, None)
    assert await driver.adopt("writer", tmp_path) is None


async def test_one_that_does_not_answer_is_ended(
    tmp_path: Path, driver: FirecrackerDriver, sleeper: subprocess.Popen[bytes]
) -> None:
    folder = left(tmp_path, "writer", "firecracker", ProcessRecord.of("it", sleeper.pid))
    driver._settings = MachineSettings(tmp_path, tmp_path / "vm", 0.2, 1)
    with pytest.raises(StartFailed, match=r"did not answer within 0\.2 s"):
        await driver.adopt("writer", tmp_path)
    assert (sleeper.wait(10), read_record(folder)) == (-9, None)


async def test_another_process_with_the_id_of_one_that_has_ended_is_left_alone(
    tmp_path: Path, driver: FirecrackerDriver, sleeper: subprocess.Popen[bytes]
) -> None:
    gone = ProcessRecord(name="it", pid=sleeper.pid, started=1)
    folder = left(tmp_path, "writer", "firecracker", gone)
    await driver.end_orphan("writer")
    assert (sleeper.poll(), read_record(folder)) == (None, None)
    await driver.end_orphan("writer")


async def test_a_deletion_ends_it_first(
    tmp_path: Path, driver: FirecrackerDriver, sleeper: subprocess.Popen[bytes]
) -> None:
    folder = left(tmp_path, "writer", "firecracker", ProcessRecord.of("it", sleeper.pid))
    assert await driver.remove("writer") == folder
    assert sleeper.wait(10) == -9
