"""What a machine's own init answers, once its guest is taken: it is stopped all the same, and loses its tokens."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import pytest

from agent_common.clock import SystemClock
from agent_host.access import TokenStore
from agent_host.access.tokens import digest
from agent_host.database import open_database
from agent_host.fleet import Fleet, LaunchRequest, Workspaces
from agent_host.fleet.console import Console
from agent_host.fleet.machine import (
    HostSockets,
    MachineRecord,
    MachineRuntime,
    MachineSettings,
    SocketDir,
)
from tests.unit.host.fleet.test_supervisor import Driver

ANSWERS = {
    "brackets": b"[" * 200_000 + b"\n",
    "long-number": b'{"code": ' + b"9" * 100_000 + b"}\n",
    "wide": b'{"x":[' + b'{"":0},' * (7 * 2**20 // 7) + b"0]}\n",
    "no-text": b"\xff\xfe\n",
}
LONGEST_MS = 100
"""Of work on the event loop that others wait for."""


class Machines(Driver):
    """A machine is `sleep`, and its init a socket that answers as a taken guest would."""

    def __init__(self, folder: Path, token_of: dict[str, str]) -> None:
        super().__init__()
        self.settings = MachineSettings(folder, folder / "vm", start_timeout=30, stop_grace=0.1, outlives_host=False)
        self.folder, self.answer, self.asked, self.tokens = folder, b"{}\n", [b""], token_of
        self.made: list[MachineRuntime] = []

    async def start(self, launch: LaunchRequest) -> MachineRuntime:  # pyright: ignore[reportIncompatibleMethodOverride]
        sockets = SocketDir.create_for_workspace(self.settings.run_dir, launch.id)
        console, record = Console(self.folder / "console.log"), MachineRecord.empty("sleep", launch.id)
        machine = MachineRuntime(self.settings, sockets, HostSockets(), console, record)
        await machine.spawn("it", ("sleep", "600"), output=asyncio.subprocess.DEVNULL)
        self.init = await asyncio.start_unix_server(self._serve, str(sockets.uds))
        self.tokens[launch.id] = launch.mesh_token
        self.made.append(machine)
        return machine

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        writer.write(b"OK 1\n")
        self.asked.append(await reader.readline())
        writer.write(self.answer)
        writer.close()


@asynccontextmanager
async def host(tmp_path: Path) -> AsyncGenerator[tuple[Fleet, Machines, TokenStore]]:
    clock, machines = SystemClock(), Machines(tmp_path, {})
    with closing(open_database(f"sqlite:///{tmp_path}/mesh.db")) as database:
        store = TokenStore(database, clock)
        fleet = Fleet(Workspaces(database, tmp_path, clock), {"vm": machines}, store, "")
        await fleet.create("evil")
        await fleet.start("evil")
        try:
            yield fleet, machines, store
        finally:
            for machine in machines.made:
                await machine.stop(at_once=True)
            machines.init.close()


@pytest.mark.parametrize("name", ANSWERS)
async def test_stop_ends_the_machine_and_its_tokens_whatever_it_answers(tmp_path: Path, name: str) -> None:
    async with host(tmp_path) as (fleet, machines, store):
        machines.answer = ANSWERS[name]
        token = digest(machines.tokens["evil"])
        assert await store.find(token) is not None
        waits: list[float] = []
        watch = asyncio.create_task(pulse(waits))
        assert (await fleet.stop("evil")).state == "stopped"
        watch.cancel()
        assert b'"stop"' in machines.asked[-1]
        assert not machines.made[0].running
        assert await store.find(token) is None
        assert max(waits, default=0.0) * 1000 < LONGEST_MS


async def pulse(waits: list[float]) -> None:
    """How long others wait for the event loop, in seconds of its own thread, so that a busy machine does not count."""
    while True:
        before = time.thread_time()
        await asyncio.sleep(0.001)
        waits.append(time.thread_time() - before)
