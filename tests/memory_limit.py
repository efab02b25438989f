"""Memory limits for servers that tests start: what a machine of that size bears.

A limit holds for the server and, each by itself, for the processes that it starts. It counts private writable memory
(`RLIMIT_DATA`), so an allocation beyond it fails. Thread stacks count with their whole size and are set to 1 MiB.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

GUEST_MIB = 512
"""The smallest guest that we promise to survive hostile input."""
HOST_MIB = 1024
_SCRIPT = 'ulimit -S -s 1024 && ulimit -d "$1" && shift && exec "$@"'


def limited(command: Sequence[str | Path], mib: int) -> list[str]:
    """The command that runs `command` with at most `mib` MiB of memory."""
    return ["/bin/sh", "-c", _SCRIPT, "limited", str(mib * 1024), *map(str, command)]


def peak_mib(pid: int) -> int:
    """The most memory that a live process has held at any time (its high-water mark of resident memory), in MiB."""
    for line in Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) // 1024
    raise ProcessLookupError(pid)
