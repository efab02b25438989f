"""A control group of the kernel that holds a server and all that it starts to the memory of a small machine.

Only root on a machine that lets us make groups can have one; elsewhere the limits of `tests.memory_limit` remain.
"""

from __future__ import annotations

import os
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

_ROOT = Path("/sys/fs/cgroup")
_JOIN = 'echo $$ > "$1" && shift && exec "$@"'
_NAMES = {
    # version 1: limit, peak, file with the line `oom_kill N`
    _ROOT / "memory": ("memory.limit_in_bytes", "memory.max_usage_in_bytes", "memory.oom_control"),
    # version 2
    _ROOT: ("memory.max", "memory.peak", "memory.events"),
}
GONE_SECONDS = 60.0


class MemoryGroup:
    """One group. `peak_mib` counts files that are cached, too, which the kernel gives up when memory runs short."""

    def __init__(self, folder: Path, names: tuple[str, str, str]) -> None:
        self._folder, self._names = folder, names

    def command(self, command: Sequence[str | Path]) -> list[str]:
        """The command that runs `command` in the group."""
        return ["/bin/sh", "-c", _JOIN, "join", str(self._folder / "cgroup.procs"), *map(str, command)]

    @property
    def peak_mib(self) -> int:
        """The most memory that the group has held at any time, in MiB."""
        return int((self._folder / self._names[1]).read_text(encoding="ascii")) // 2**20

    @property
    def kills(self) -> int:
        """How many processes the kernel has ended because memory ran out."""
        lines = (self._folder / self._names[2]).read_text(encoding="ascii").splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("oom_kill "))


@contextmanager
def memory_group(mib: int) -> Generator[MemoryGroup | None]:
    """A group with a limit; None where none can be made. Its processes must have ended when the block does."""
    for root, names in _NAMES.items():
        folder = root / f"agent-test-{os.getpid()}-{time.monotonic_ns()}"
        try:
            folder.mkdir()
        except OSError:
            continue
        try:
            if (folder / names[0]).exists():
                (folder / names[0]).write_text(str(mib * 2**20), encoding="ascii")
                yield MemoryGroup(folder, names)
                return
        finally:
            _remove(folder)
    yield None


def _remove(folder: Path) -> None:
    """Remove the group as soon as the last of its processes has ended."""
    deadline = time.monotonic() + GONE_SECONDS
    while True:
        try:
            folder.rmdir()
        except OSError:
            assert time.monotonic() < deadline, f"a process is left in {folder}"
            time.sleep(0.05)
        else:
            return
