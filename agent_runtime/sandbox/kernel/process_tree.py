"""What a process and all that descend from it use up, as /proc tells it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

PAGE_SIZE = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True)
class ProcessTree:
    pids: tuple[int, ...]
    threads: int
    """At least one for each process."""
    memory: int
    """Bytes in memory. What several processes share counts for each of them."""
    sessions: int


def measure_tree(root: int, max_threads: int) -> ProcessTree:
    """The tree below a process, itself included; of one with more than so many threads only the beginning. What ends
    meanwhile is left out."""
    pids: list[int] = []
    threads = 0
    for pid, count in _walk_tree(root):
        pids.append(pid)
        threads += count
        if threads > max_threads:
            break
    return ProcessTree(
        pids=tuple(pids),
        threads=threads,
        memory=sum(_rss(pid) for pid in pids),
        sessions=len({session for pid in pids if (session := _session(pid))}),
    )


def descendants(root: int) -> Iterator[int]:
    return (pid for pid, _ in _walk_tree(root))


def _walk_tree(root: int) -> Iterator[tuple[int, int]]:
    """Processes, each with the number of its threads."""
    waiting = [root]
    while waiting:
        pid = waiting.pop()
        try:
            threads = os.listdir(f"/proc/{pid}/task")
        except OSError:
            threads = []
        yield pid, len(threads)
        for thread in threads:
            waiting.extend(map(int, _read(f"/proc/{pid}/task/{thread}/children").split()))


def command_line(pid: int) -> str:
    """Arguments, with blanks between them; empty for one that has ended."""
    return _read(f"/proc/{pid}/cmdline").replace(b"\0", b" ").decode(errors="replace")


def thread_count(pid: int) -> int:
    """0 for one that has ended."""
    try:
        return len(os.listdir(f"/proc/{pid}/task"))
    except OSError:
        return 0


def written_bytes(root: int) -> int:
    """Bytes that a tree, its ended processes included, has put into files on disks; 0 for those that hide it."""
    return sum(_written_by(pid) for pid in descendants(root))


def proportional_memory(pids: Iterable[int]) -> int:
    """Bytes in memory of these processes, where what they share counts once. Slow: the kernel looks at every page."""
    return sum(_pss(pid) for pid in pids)


def _pss(pid: int) -> int:
    for line in _read(f"/proc/{pid}/smaps_rollup").splitlines():
        if line.startswith(b"Pss:"):
            return int(line.split()[1]) * 1024
    return _rss(pid)  # it hides, or has ended


def _rss(pid: int) -> int:
    fields = _read(f"/proc/{pid}/statm").split()
    return int(fields[1]) * PAGE_SIZE if fields else 0


def _written_by(pid: int) -> int:
    found = re.search(rb"^write_bytes: (\d+)$", _read(f"/proc/{pid}/io"), re.MULTILINE)
    return int(found[1]) if found else 0


def _session(pid: int) -> int:
    fields = _read(f"/proc/{pid}/stat").rpartition(b")")[2].split()
    return int(fields[3]) if fields else 0


def _read(path: str) -> bytes:
    try:
        with open(path, "rb", 0) as file:
            return file.read()
    except OSError:
        return b""
