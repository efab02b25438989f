"""What one command may see, change and use up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

MiB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Limits:
    """What the processes of a command may use up. Sizes are bytes; memory, files and time count per process."""

    memory: int = 2048 * MiB
    """Private writable memory. The address space is bounded at four times as much."""
    processes: int = 256
    """Processes and threads of the confined user together."""
    file_size: int = 512 * MiB
    open_files: int = 1024
    cpu_seconds: int = 3600
    tmp: int = 256 * MiB
    """Each of the two folders that live in memory: the one for temporary files and /dev/shm."""


@dataclass(frozen=True, slots=True)
class Box:
    """What a command sees besides the system's programs: nothing but these folders, at their own paths."""

    workdir: Path
    writable: tuple[Path, ...] = ()
    readable: tuple[Path, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    """On top of the few variables that every command gets; nothing of the server's environment is passed on."""
    limits: Limits = field(default_factory=Limits)
