"""What one command may see, change and use up."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

MiB = 1024 * 1024
MIN_FILES = 25_000


def _default_total_memory() -> int:
    """4 GiB, or half of a smaller machine."""
    return min(4096 * MiB, os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2)


@dataclass(frozen=True, slots=True)
class SandboxLimits:
    """What the processes of a command may use up. Sizes are bytes; memory, files and time count per process."""

    memory: int = 2048 * MiB
    """Private writable memory. The address space is bounded at four times as much."""
    total_memory: int = field(default_factory=_default_total_memory)
    """What all processes of a command use together; one that goes beyond is ended."""
    processes: int = 256
    """Processes and threads. Where the kernel counts them by command, there are no more; where it counts those of all
    commands together, one that goes beyond is ended."""
    sessions: int = 32
    """Sessions of processes that a command may open. Kernels that schedule by session give each of them the server's
    share."""
    file_size: int = 512 * MiB
    open_files: int = 1024
    cpu_seconds: int = 3600
    tmp: int = 256 * MiB
    """Each of the two folders that live in memory: the one for temporary files and /dev/shm."""
    scratch: int = 100 * MiB
    """What a session's scratch may hold."""
    workspace: int = 10 * 1024 * MiB
    """What the workspace may hold, whoever wrote it."""


@dataclass(frozen=True, slots=True)
class Quota:
    """What a folder may come to. A command that carries it beyond is ended, one that finds it there can only delete."""

    folder: Path
    bytes: int
    files: int
    name: str = "the folder"
    """What the model knows it as."""

    @classmethod
    def for_size(cls, folder: Path, size: int, name: str) -> Quota:
        """With as many files as a file system of that size commonly has room for."""
        return cls(folder, size, max(MIN_FILES, size // (16 * 1024)), name)


@dataclass(frozen=True, slots=True)
class SandboxSpec:
    """What a command sees besides the system's programs: nothing but these folders, at their own paths."""

    workdir: Path
    writable: tuple[Path, ...] = ()
    readable: tuple[Path, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    """On top of the few variables that every command gets; nothing of the server's environment is passed on."""
    limits: SandboxLimits = field(default_factory=SandboxLimits)
    quotas: tuple[Quota, ...] = ()
    network: Path | None = None
    """The unix socket of a forward proxy for this command; none: no network. Only bubblewrap can offer one."""
    lowers_own_priority: bool = False
    """It is a program of ours that somebody waits for: it begins with the server's priority, and takes the lowest one
    before it runs anything that is not ours."""
