"""What is measured: a kind of server, and one that lives."""

from __future__ import annotations

import socket
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from agent_testing import LiveProcess
from tests.ports import free_port

from .stored import Contents, fill_floor, fill_ours

_START_SECONDS = 30.0
_MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Target:
    """A kind of server: how to start one on a port, with a data directory and a provider."""

    name: str
    argv: tuple[str, ...]
    env: Callable[[int, str, str], Mapping[str, str]]
    fill: Callable[[Path, Contents], None]
    """Puts stored sessions into an empty data directory."""


OURS = Target(
    "ours",
    (sys.executable, "-m", "agent_runtime", "serve"),
    lambda port, data, provider: {
        "AGENT_PORT": str(port),
        "AGENT_DATA_DIR": data,
        "AGENT_LLM_BASE_URL": provider,
        "AGENT_CONTEXT_LIMIT": "1000000",  # the floor never compacts, so no long session may be compacted here
    },
    fill_ours,
)
FLOOR = Target(
    "floor",
    (sys.executable, "-m", "tests.bench.floor"),
    lambda port, data, provider: {"FLOOR_PORT": str(port), "FLOOR_DATA_DIR": data, "FLOOR_LLM_BASE_URL": provider},
    fill_floor,
)


@dataclass(frozen=True, slots=True)
class Live:
    """A server that is ready for work."""

    name: str
    url: str
    pid: int
    started_in: float
    """Seconds from the start of its process to the first 200 from `/healthz`."""
    ready_in: float
    """The same for `/readyz`."""
    data: str = ""
    """Its data directory."""
    unread: Iterator[str] = field(default_factory=lambda: iter(()))
    """Long stored sessions that nobody has spoken in since the start."""

    def memory(self) -> float:
        """Resident MiB of the process and its children."""
        return sum(process.memory_info().rss for process in self._tree()) / _MIB

    def cpu(self) -> float:
        """Seconds of CPU used so far by the process and its living children."""
        return sum(map(cpu_of, self._tree()))

    def _tree(self) -> list[psutil.Process]:
        root = psutil.Process(self.pid)
        return [root, *root.children(recursive=True)]


def cpu_of(process: psutil.Process) -> float:
    """Seconds of CPU that a process has used so far."""
    try:
        return time.clock_gettime(~process.pid << 3 | 2)  # Linux: a process's CPU clock
    except OSError:  # it has ended since it was listed
        return 0.0


@contextmanager
def running(target: Target, provider: str, contents: Contents | None = None) -> Generator[Live]:
    """Starts a server in a data directory that is empty or has these contents; stops it at the end."""
    port = free_port()
    with tempfile.TemporaryDirectory(prefix="bench-") as data:
        if contents is not None:
            target.fill(Path(data), contents)
        started = time.perf_counter()
        with LiveProcess(target.argv, env=target.env(port, data, provider)) as process:
            _await(process, port, "/healthz")
            alive = time.perf_counter() - started
            _await(process, port, "/readyz")
            ready = time.perf_counter() - started
            try:
                unread = iter(contents.long_names if contents else ())
                yield Live(target.name, f"http://127.0.0.1:{port}", process.pid, alive, ready, data, unread)
            except Exception as error:
                error.add_note(f"{target.name} has printed:\n{process.output()[-4000:]}")
                raise


@contextmanager
def provider() -> Generator[str]:
    """The scripted provider as a process of its own; gives its base URL."""
    with LiveProcess([sys.executable, "-m", "agent_testing"]) as process:
        yield process.wait_for_output(r"^http://\S+$")[0]


def _await(process: LiveProcess, port: int, path: str) -> None:
    """Asks every other millisecond, over raw sockets: the question must not cost what it measures."""
    deadline = time.monotonic() + _START_SECONDS
    while not _answers(port, path):
        if process.returncode is not None or time.monotonic() > deadline:
            raise RuntimeError(f"{' '.join(process.argv)} did not answer {path}:\n{process.output()}")
        time.sleep(0.002)


def _answers(port: int, path: str) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1.0) as connection:
            connection.sendall(f"GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n".encode())
            return connection.recv(64).startswith(b"HTTP/1.1 200")
    except OSError:
        return False
