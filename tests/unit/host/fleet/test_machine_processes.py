"""Processes of a machine that outlive the host: on record before they run, and known again without a mistake."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from agent_host.fleet.driver import StartFailed
from agent_host.fleet.machine.processes import (
    AdoptedProcess,
    MachineRecord,
    MonitorProcess,
    ProcessRecord,
    delete_record,
    read_record,
    write_record,
)
from agent_testing import LiveProcess

PATIENCE = 60.0
KEEPER = """
import asyncio, sys, uvloop
from agent_host.fleet.machine import MonitorProcess

async def main():
    script = f"touch {sys.argv[1]}; exec sleep 600"
    process = await MonitorProcess.spawn("it", ("sh", "-c", script), output=asyncio.subprocess.DEVNULL, held=True)
    if sys.argv[2] == "released":
        process.release()
    print("started", process.pid, flush=True)
    await asyncio.Event().wait()

uvloop.run(main())
"""


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "600"], start_new_session=True) as process:
        yield process
        process.kill()


async def test_a_process_is_found_watched_and_killed(sleeper: subprocess.Popen[bytes]) -> None:
    process = AdoptedProcess.find(ProcessRecord.of("it", sleeper.pid))
    assert process is not None
    assert (process.name, process.pid, process.running) == ("it", sleeper.pid, True)
    waiting = asyncio.create_task(process.wait())
    await process.kill()
    assert await asyncio.wait_for(waiting, PATIENCE) == "ended"
    assert (process.running, sleeper.wait(PATIENCE)) == (False, -signal.SIGKILL)
    await process.kill()
    assert AdoptedProcess.find(ProcessRecord(name="it", pid=sleeper.pid, started=1)) is None, "it is gone"


async def test_another_process_with_the_same_id_is_not_taken_for_it(sleeper: subprocess.Popen[bytes]) -> None:
    record = ProcessRecord.of("it", sleeper.pid)
    assert AdoptedProcess.find(record.model_copy(update={"started": record.started - 1})) is None
    assert sleeper.poll() is None


def test_one_that_has_ended_but_is_not_reaped_is_not_found(sleeper: subprocess.Popen[bytes]) -> None:
    record = ProcessRecord.of("it", sleeper.pid)
    sleeper.kill()
    os.waitid(os.P_PID, sleeper.pid, os.WEXITED | os.WNOWAIT)
    assert AdoptedProcess.find(record) is None
    with pytest.raises(StartFailed, match="it has ended at once"):
        ProcessRecord.of("it", sleeper.pid)


def test_a_record_is_for_the_host_alone_and_for_one_boot_of_the_system(tmp_path: Path) -> None:
    record = MachineRecord.empty("qemu", "writer").with_process(ProcessRecord.of("it", os.getpid())).with_guest()
    write_record(tmp_path, record)
    assert read_record(tmp_path) == record
    assert (tmp_path / "machine.json").stat().st_mode & 0o777 == 0o600
    write_record(tmp_path, record.model_copy(update={"boot_id": "another"}))
    assert read_record(tmp_path) is None
    (tmp_path / "machine.json").write_text("{")
    with pytest.raises(StartFailed, match=r"machine\.json cannot be read; end the machine's processes"):
        read_record(tmp_path)
    delete_record(tmp_path)
    assert read_record(tmp_path) is None


async def test_a_held_process_runs_once_it_is_released(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    process = await MonitorProcess.spawn("it", ("touch", str(mark)), output=asyncio.subprocess.DEVNULL, held=True)
    before = ProcessRecord.of("it", process.pid)
    assert before.running
    assert not mark.exists()
    process.release()
    assert await asyncio.wait_for(process.wait(), PATIENCE) == "ended with exit code 0"
    assert mark.exists()


@pytest.mark.slow
def test_only_a_process_that_was_released_outlives_the_host(tmp_path: Path) -> None:
    held, released = tmp_path / "held", tmp_path / "released"
    with LiveProcess([sys.executable, "-c", KEEPER, held, "held"]) as keeper:
        child = psutil.Process(int(keeper.wait_for_output(r"started (\d+)")[1]))
        keeper.kill9()
        assert psutil.wait_procs([child], PATIENCE)[1] == []
        assert not held.exists()
    with LiveProcess([sys.executable, "-c", KEEPER, released, "released"]) as keeper:
        child = psutil.Process(int(keeper.wait_for_output(r"started (\d+)")[1]))
        try:
            wait_for(lambda: child.name() == "sleep")
            keeper.kill9()
            assert released.exists()
            assert child.name() == "sleep"
        finally:
            child.kill()


def wait_for(done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not done():
        assert time.monotonic() < deadline
        time.sleep(0.01)
