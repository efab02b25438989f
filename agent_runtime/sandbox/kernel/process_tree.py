"""Measure from /proc what a process and its descendants use."""

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
    """At least one per process."""
    memory: int
    """Resident bytes. Memory shared by several processes counts for each of them."""
    sessions: int


def measure_tree(root: int, max_threads: int) -> ProcessTree:
    """Return the tree of a process, including itself. Processes that end meanwhile are left out; a tree with more than
    `max_threads` threads is cut off there."""
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
    """Yield each process with the number of its threads."""
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
    """Return the arguments, separated by blanks; empty for a process that has ended."""
    return _read(f"/proc/{pid}/cmdline").replace(b"\0", b" ").decode(errors="replace")


def thread_count(pid: int) -> int:
    """Return the number of threads; 0 for a process that has ended."""
    try:
        return len(os.listdir(f"/proc/{pid}/task"))
    except OSError:
        return 0


def written_bytes(root: int) -> int:
    """Return the bytes that a tree, including ended processes, has written to disks; 0 for processes that hide it."""
    return sum(_written_by(pid) for pid in descendants(root))


def proportional_memory(pids: Iterable[int]) -> int:
    """Return the resident bytes of these processes, counting shared memory once. Slow: the kernel visits every page."""
    return sum(_pss(pid) for pid in pids)


def _pss(pid: int) -> int:
    for line in _read(f"/proc/{pid}/smaps_rollup").splitlines():
        if line.startswith(b"Pss:"):
            return int(line.split()[1]) * 1024
    return _rss(pid)  # hidden, or the process has ended


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
