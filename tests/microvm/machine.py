"""The built image's disks, machines that run programs of the tests on them, and how long things took."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import socket
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent_host.fleet.driver import LaunchRequest
from agent_host.fleet.drivers.qemu import QemuDriver
from agent_host.fleet.machine import HostSockets, MachineRuntime, MachineSettings, SocketDir

IMAGE = Path(os.environ["MICROVM_IMAGE"]).absolute()
PATIENCE = 150.0
"""Seconds after which a wait has failed: an emulated processor is slow, and other work may share the machine."""
PYTHON = "/opt/agent/bin/python"
HOST = 2048
"""The host's port."""


def born(pid: int) -> float:
    """When a process began, in seconds of the epoch, to a hundredth."""
    ticks = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
    age = time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
    return time.time() - age


def busy(pid: int) -> float:
    """Seconds of a processor that a process has used so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Took:
    """From the start of a machine's monitor to something that its guest said."""

    seconds: float
    busy: float
    """Seconds of a processor, which other work on this machine does not make more."""

    def __str__(self) -> str:
        return f"{self.seconds:.2f} s ({self.busy:.2f} s of a processor)"


def image_of(folder: Path, program: str) -> Path:
    """The image's own disk, kernel and initrd, with a program of the test's in the runtime's place."""
    folder.mkdir(parents=True)
    for name in ("rootfs.ext4", "vmlinuz", "initrd.gz"):
        (folder / name).symlink_to(IMAGE / name)
    config: dict[str, Any] = json.loads((IMAGE / "image.json").read_text())
    config |= {"Entrypoint": [PYTHON, "-I", "-c", program], "Cmd": None}
    (folder / "image.json").write_text(json.dumps(config))
    return folder


def connected(uds: Path, port: int) -> socket.socket:
    """A connection to the guest's port, from the host."""
    made = socket.socket(socket.AF_UNIX)
    made.settimeout(PATIENCE)
    made.connect(str(uds))
    made.sendall(b"CONNECT %d\n" % port)
    line = b""
    while not line.endswith(b"\n"):
        byte = made.recv(1)
        assert byte, f"the guest's port {port} has hung up: {line!r}"
        line += byte
    assert line.startswith(b"OK "), line
    return made


@dataclass
class Machine:
    """A machine that runs a program of the test's, which has said its first line."""

    runtime: MachineRuntime
    uds: Path
    said: dict[str, Any]
    took: Took
    """Until that line."""
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def dial(self, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_unix_connection(str(self.uds))
        writer.write(b"CONNECT %d\n" % port)
        assert (await reader.readline()).startswith(b"OK ")
        return reader, writer


@asynccontextmanager
async def booted(folder: Path, program: str) -> AsyncGenerator[Machine]:
    """Boots the program; it must connect to the host's port and say a line of JSON."""
    run_dir = Path("/tmp") / f"mvm-{os.getpid()}"  # a short path
    settings = MachineSettings(image_of(folder / "image", program), run_dir, PATIENCE, 10, volume=128)
    driver = QemuDriver(settings, HostSockets(), accel="tcg", operator_env={})
    launch = LaunchRequest("writer", "", folder / "ws", "secret-token", "", "", mediation_url="vsock://2:2048")
    heard: asyncio.Queue[tuple[bytes, asyncio.StreamReader, asyncio.StreamWriter]] = asyncio.Queue()

    async def meet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.put_nowait((await reader.readline(), reader, writer))

    seat = SocketDir.for_workspace(run_dir, launch.id)
    await driver.create(launch.id, launch.data_dir)
    try:
        async with await asyncio.start_unix_server(meet, seat.port_socket(HOST).path):
            runtime = await driver.start(launch)
            try:
                pid = (await runtime.status()).pid
                assert pid is not None
                said, ended = asyncio.create_task(heard.get()), asyncio.create_task(runtime.wait())
                await asyncio.wait((said, ended), timeout=PATIENCE, return_when=asyncio.FIRST_COMPLETED)
                ended.cancel()
                assert said.done(), "the program has said nothing"
                line, reader, writer = said.result()
                took = Took(time.time() - born(pid), busy(pid))
                try:
                    yield Machine(runtime, seat.uds, json.loads(line), took, reader, writer)
                finally:
                    writer.close()
            except BaseException:
                print(await runtime.console())
                raise
            finally:
                await runtime.stop(at_once=True)
    finally:
        shutil.rmtree(run_dir, ignore_errors=True)
