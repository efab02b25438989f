"""Test a backend: a program confined by it tries what commands must be able to do and what they must not."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import socket
import subprocess
import sys
import tempfile
from collections.abc import Generator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path

from ..backends.backend import SandboxBackend, find_program
from ..confinement import Confinement
from ..run.process import SandboxProcess
from ..spec.spec import SandboxSpec

PROBE_SECONDS = 10.0
END_SECONDS = 2.0
"""Seconds in which a command that the child could signal, and has killed, must have ended."""
SIGNAL_FAULT = "it can signal other commands"
CHILD_PROGRAM = Path(__file__).with_name("probe_child.py")
NEIGHBOUR = ("bash", "-c", "echo; exec sleep 60")
"""A command in another sandbox, which prints a line when it has started."""


async def probe(backend: SandboxBackend, data_dir: Path) -> tuple[str, ...]:
    """Return the faults of a backend. Raises BackendUnavailable, ToolFailure or OSError if it cannot be tested."""
    with (
        tempfile.TemporaryDirectory(prefix="probe-", dir=data_dir) as name,
        _open_to_commands(data_dir, backend.by_path),
    ):
        folder = Path(name)
        os.chmod(folder, 0o711 if backend.by_path else 0o700)
        backend.prepare_host(data_dir)
        with _listener() as port, _victim() as victim:
            faults = await _run_checks(backend, folder, port, victim)
        if os.stat(folder / "secret").st_mode & 0o777 != 0o600:
            faults += ("it can change the modes of what it does not see",)
        return faults


async def _run_checks(
    backend: SandboxBackend, folder: Path, port: int, victim: subprocess.Popen[bytes]
) -> tuple[str, ...]:
    nonce = secrets.token_bytes(32)
    (folder / "secret").write_bytes(nonce)
    (folder / "secret").chmod(0o600)
    work = folder / "work"
    other = folder / "other"
    for mine in (work, other):
        mine.mkdir(mode=0o700)
    (other / "notes").write_bytes(nonce)
    if backend.uid is not None:
        for mine in (work, other, other / "notes"):
            os.chown(mine, backend.uid, backend.uid)
    confinement = Confinement(backend)
    at = id(nonce) + bytes.__basicsize__ - 1  # address of its first byte in our memory
    argv = (sys.executable, "-I", "-S", "-c", CHILD_PROGRAM.read_text())
    async with AsyncExitStack() as stack:
        neighbour: SandboxProcess | None = None
        if backend.name != "bubblewrap":  # its sandboxes have their own processes
            sandbox_spec = SandboxSpec(other, (other,), env={"SECRET": "x"})
            neighbour = await stack.enter_async_context(await confinement.spawn(NEIGHBOUR, sandbox_spec))
            try:
                await asyncio.wait_for(neighbour.stdout.readline(), PROBE_SECONDS)
            except TimeoutError:
                return (f"a command did not start within {PROBE_SECONDS:.0f} s",)
        neighbours = ",".join(map(str, neighbour.processes() if neighbour else [0]))
        args = (str(folder), str(port), str(os.getpid()), str(at), str(victim.pid), neighbours)
        done = await confinement.run((*argv, *args), SandboxSpec(work, (work,)), timeout=PROBE_SECONDS, stdin=nonce)
        if neighbour is not None and SIGNAL_FAULT in done.stdout.splitlines():
            with contextlib.suppress(TimeoutError):  # on a busy machine a killed process takes a moment to end
                await asyncio.wait_for(neighbour.wait(), END_SECONDS)
        ended = neighbour is not None and not neighbour.running
    if done.timed_out:
        return (f"it did not answer within {PROBE_SECONDS:.0f} s",)
    faults = tuple(done.stdout.splitlines()) if done.exit_code == 0 else (_death_reason(done.stderr, done.exit_code),)
    if victim.poll() is not None:
        faults += ("it can end the server's processes",)
    return (*faults, "it can end other commands") if ended else faults


def _death_reason(printed: str, code: int | None) -> str:
    return printed.strip().rpartition("\n")[2] or f"it ended with {code}"


@contextmanager
def _open_to_commands(folder: Path, by_path: bool) -> Generator[None]:
    """Let commands pass through an otherwise closed folder while the block runs."""
    mode = folder.stat().st_mode & 0o7777
    if by_path:
        folder.chmod(mode | 0o011)
    try:
        yield
    finally:
        folder.chmod(mode)


@contextmanager
def _listener() -> Generator[int]:
    """Listen on this machine's loopback and yield the port."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@contextmanager
def _victim() -> Generator[subprocess.Popen[bytes]]:
    """Run an idle process of the server's user."""
    with subprocess.Popen((find_program("sleep"), "60"), stdin=subprocess.DEVNULL, start_new_session=True) as process:
        try:
            yield process
        finally:
            process.kill()
