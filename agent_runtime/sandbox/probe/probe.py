"""A rung is tried for real before it is trusted: a program in it tries what commands must be able to do or must not."""

from __future__ import annotations

import asyncio
import os
import secrets
import socket
import subprocess
import sys
import tempfile
from collections.abc import Generator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path

from ..backends.backend import SandboxBackend, program
from ..confinement import Confinement
from ..run.process import SandboxProcess
from ..spec.spec import SandboxSpec

SECONDS = 10.0
PROGRAM = Path(__file__).with_name("probe_child.py")
NEIGHBOUR = ("bash", "-c", "echo; exec sleep 60")
"""A command in another box, which says that it has begun."""


async def probe(rung: SandboxBackend, data_dir: Path) -> tuple[str, ...]:
    """Return what is wrong with a rung. Raises Missing, ToolFailure or OSError when it cannot even be tried."""
    with tempfile.TemporaryDirectory(prefix="probe-", dir=data_dir) as name, _passable(data_dir, rung.by_path):
        folder = Path(name)
        os.chmod(folder, 0o711 if rung.by_path else 0o700)
        rung.settle(data_dir)
        with _listener() as port, _victim() as victim:
            faults = await _try(rung, folder, port, victim)
        if os.stat(folder / "secret").st_mode & 0o777 != 0o600:
            faults += ("it can change the modes of what it does not see",)
        return faults


async def _try(rung: SandboxBackend, folder: Path, port: int, victim: subprocess.Popen[bytes]) -> tuple[str, ...]:
    nonce = secrets.token_bytes(32)
    (folder / "secret").write_bytes(nonce)
    (folder / "secret").chmod(0o600)
    work, other = folder / "work", folder / "other"
    for mine in (work, other):
        mine.mkdir(mode=0o700)
    (other / "notes").write_bytes(nonce)
    if rung.uid is not None:
        for mine in (work, other, other / "notes"):
            os.chown(mine, rung.uid, rung.uid)
    confinement = Confinement(rung)
    at = id(nonce) + bytes.__basicsize__ - 1  # where its first byte lies in our memory
    argv = (sys.executable, "-I", "-S", "-c", PROGRAM.read_text())
    async with AsyncExitStack() as stack:
        neighbour: SandboxProcess | None = None
        if (
            rung.name != "bubblewrap"
        ):  # a box of it has processes of its own, and sees the server as little as a neighbour
            box = SandboxSpec(other, (other,), env={"SECRET": "x"})
            neighbour = await stack.enter_async_context(await confinement.spawn(NEIGHBOUR, box))
            try:
                await asyncio.wait_for(neighbour.stdout.readline(), SECONDS)
            except TimeoutError:
                return (f"a command did not start within {SECONDS:.0f} s",)
        neighbours = ",".join(map(str, neighbour.family() if neighbour else [0]))
        told = (str(folder), str(port), str(os.getpid()), str(at), str(victim.pid), neighbours)
        done = await confinement.run((*argv, *told), SandboxSpec(work, (work,)), timeout=SECONDS, stdin=nonce)
        ended = neighbour is not None and not neighbour.running
    if done.timed_out:
        return (f"it did not answer within {SECONDS:.0f} s",)
    faults = tuple(done.stdout.splitlines()) if done.exit_code == 0 else (_death(done.stderr, done.exit_code),)
    if victim.poll() is not None:
        faults += ("it can end the server's processes",)
    return (*faults, "it can end other commands") if ended else faults


def _death(printed: str, code: int | None) -> str:
    return printed.strip().rpartition("\n")[2] or f"it ended with {code}"


@contextmanager
def _passable(folder: Path, by_path: bool) -> Generator[None]:
    """Lets commands through a folder that is otherwise closed, for as long as this lasts."""
    mode = folder.stat().st_mode & 0o7777
    if by_path:
        folder.chmod(mode | 0o011)
    try:
        yield
    finally:
        folder.chmod(mode)


@contextmanager
def _listener() -> Generator[int]:
    """A server on this machine's loopback; its port."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@contextmanager
def _victim() -> Generator[subprocess.Popen[bytes]]:
    """A process of the server's user that does nothing."""
    with subprocess.Popen((program("sleep"), "60"), stdin=subprocess.DEVNULL, start_new_session=True) as process:
        try:
            yield process
        finally:
            process.kill()
