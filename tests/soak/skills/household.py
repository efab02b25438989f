"""What a server holds of the machine at one moment: memory, descriptors, threads, processes, watches, staged builds."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil

WORKER = "/skills/worker/boot.py"
"""In the command line of every skill worker, and of the boxes around it."""
PATIENCE = 20.0


@dataclass(frozen=True, slots=True)
class Household:
    """Counts of one moment."""

    memory: float
    """Resident MiB of the server alone."""
    descriptors: int
    threads: int
    processes: int
    """Its descendants, the dead that wait for their burial included."""
    workers: int
    """Those among them that belong to skills."""
    watches: int
    """Of inotify."""
    staged: int
    """Builds on disk."""

    def __str__(self) -> str:
        words = {**asdict(self), "memory": f"{self.memory:.1f} MiB"}
        return ", ".join(f"{name} {value}" for name, value in words.items())


def household(pid: int, data: Path) -> Household:
    server = psutil.Process(pid)
    lines = [_command_line(child) for child in server.children(recursive=True)]
    return Household(
        memory=server.memory_info().rss / 2**20,
        descriptors=server.num_fds(),
        threads=server.num_threads(),
        processes=len(lines),
        workers=sum(WORKER in line for line in lines),
        watches=_watches(pid),
        staged=len(os.listdir(data / "staged")),
    )


def anywhere(*marks: str) -> list[str]:
    """Command lines on this machine with one of these marks in them, the dead aside."""
    lines = [_command_line(one) for one in psutil.process_iter() if one.pid != os.getpid()]
    return [line for line in lines if any(mark in line for mark in marks)]


def settled(look: Callable[[], object], timeout: float = PATIENCE) -> bool:
    """Waits until it comes true."""
    deadline = time.monotonic() + timeout
    while not look():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def _watches(pid: int) -> int:
    count = 0
    for file in Path(f"/proc/{pid}/fdinfo").iterdir():
        with suppress(OSError):
            count += file.read_text("ascii").count("inotify wd:")
    return count


def _command_line(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""
