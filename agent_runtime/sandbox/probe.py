"""A rung is tried for real before it is trusted: a program in it tries what commands must be able to do or must not."""

from __future__ import annotations

import os
import secrets
import socket
import subprocess
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from .box import Box
from .confinement import Confinement
from .rung import Rung, program

SECONDS = 10.0
PROGRAM = Path(__file__).with_name("prober.py")
TOLERATED = "it can read the scratch of other sessions"
"""The one fault with which `auto` takes a rung all the same."""


@dataclass(frozen=True, slots=True)
class Verdict:
    faults: tuple[str, ...] = ()

    @property
    def usable(self) -> bool:
        return not set(self.faults) - {TOLERATED}

    def __str__(self) -> str:
        return "; ".join(self.faults)


async def probe(rung: Rung, data_dir: Path) -> Verdict:
    """What is wrong with a rung. Raises Missing, ToolFailure or OSError when it cannot even be tried."""
    with tempfile.TemporaryDirectory(prefix="probe-", dir=data_dir) as name, _passable(data_dir, rung.by_path):
        folder = Path(name)
        os.chmod(folder, 0o711 if rung.by_path else 0o700)
        rung.settle(data_dir)
        with _listener() as port, _victim() as victim:
            faults = await _try(rung, folder, port, victim)
        if os.stat(folder / "secret").st_mode & 0o777 != 0o600:
            faults += ("it can change the modes of what it does not see",)
        return Verdict(faults)


async def _try(rung: Rung, folder: Path, port: int, victim: subprocess.Popen[bytes]) -> tuple[str, ...]:
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
    at = id(nonce) + bytes.__basicsize__ - 1  # where its first byte lies in our memory
    argv = (sys.executable, "-I", "-S", "-c", PROGRAM.read_text())
    told = (str(folder), str(port), str(os.getpid()), str(at), str(victim.pid))
    done = await Confinement(rung).run((*argv, *told), Box(work, (work,)), timeout=SECONDS, stdin=nonce)
    if done.timed_out:
        return (f"it did not answer within {SECONDS:.0f} s",)
    faults = tuple(done.stdout.splitlines()) if done.exit_code == 0 else (_death(done.stderr, done.exit_code),)
    if victim.poll() is not None:
        faults += ("it can end the server's processes",)
    return faults


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
