"""The files, resources and network of one command."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

MiB = 1024 * 1024
MIN_FILES = 25_000


def _default_total_memory() -> int:
    """Return 4 GiB, or half of a smaller machine's memory."""
    return min(4096 * MiB, os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2)


@dataclass(frozen=True, slots=True)
class SandboxLimits:
    """Limits of a command's processes. Sizes are bytes; memory, files and time count per process."""

    memory: int = 2048 * MiB
    """Private writable memory. The address space is limited to four times as much."""
    total_memory: int = field(default_factory=_default_total_memory)
    """Memory of all processes of a command together; a command that exceeds it is killed."""
    processes: int = 256
    """Processes and threads. If the kernel counts them per command, it enforces the limit; if it counts those of all
    commands together, a command that exceeds it is killed."""
    sessions: int = 32
    """Process sessions that a command may open. Kernels with autogroups give each session the same share as the
    server's."""
    file_size: int = 512 * MiB
    open_files: int = 1024
    cpu_seconds: int = 3600
    tmp: int = 256 * MiB
    """Size of each of the two folders in memory: the one for temporary files, and /dev/shm."""
    scratch: int = 100 * MiB
    """Size of a session's scratch folder."""
    workspace: int = 10 * 1024 * MiB
    """Size of the workspace, including all writers."""


@dataclass(frozen=True, slots=True)
class Quota:
    """The limit of a folder. A command that exceeds it is killed; in an overfull folder commands can only delete."""

    folder: Path
    bytes: int
    files: int
    name: str = "the folder"
    """The folder's name for the model."""

    @classmethod
    def for_size(cls, folder: Path, size: int, name: str) -> Quota:
        """Return a quota with as many files as a file system of that size commonly allows."""
        return cls(folder, size, max(MIN_FILES, size // (16 * 1024)), name)


@dataclass(frozen=True, slots=True)
class SandboxSpec:
    """The sandbox of a command: besides the system's programs it sees only these folders, at their own paths."""

    workdir: Path
    writable: tuple[Path, ...] = ()
    readable: tuple[Path, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    """Variables besides the few that every command gets; nothing is inherited from the server's environment."""
    limits: SandboxLimits = field(default_factory=SandboxLimits)
    quotas: tuple[Quota, ...] = ()
    network: Path | None = None
    """The unix socket of a forward proxy for this command; None: no network. Only bubblewrap can offer one."""
    lowers_own_priority: bool = False
    """Set for programs of ours that the server waits for: they begin with the server's priority, and lower it
    themselves before they run foreign code."""
