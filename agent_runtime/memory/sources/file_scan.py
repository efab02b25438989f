"""List the Markdown files of a folder without following links, because commands can put anything there."""

from __future__ import annotations

import os
import stat
import time
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from agent_common.clock import clamp_to_calendar

from ...errors import ToolFailure
from ...workspace import SafePath

MAX_DEPTH = 8
MAX_ENTRIES = 20_000
"""Names that one scan reads in all."""
MAX_FILES = 2000
SCAN_SECONDS = 1.0
"""Seconds after which no further folder is read."""
SUFFIX = ".md"
SKIPPED_FOLDERS = frozenset({"node_modules", "__pycache__", "site-packages", "venv"})
"""Folders of installed files. Names that begin with a dot are left out too."""
RACY_NS = 100_000_000
"""Nanoseconds after a change in which another one may leave the same timestamps."""


@dataclass(frozen=True, slots=True)
class ScannedFile:
    """The state of a file when it was scanned."""

    signature: str
    """A text that differs after every change."""
    at: int
    """When it was written, in epoch milliseconds."""


@dataclass(slots=True)
class FileScan:
    """The result of scanning a folder."""

    files: dict[str, ScannedFile] = field(default_factory=dict[str, ScannedFile])
    """Files by path from the root. A missing file does not exist, unless the scan is incomplete."""
    complete: bool = True
    """Whether everything was scanned."""
    seconds: float = 0.0
    """Duration of the scan."""


def scan(root: Path, start: str = "", excluded: frozenset[str] = frozenset(), known: Iterable[str] = ()) -> FileScan:
    """Scan a folder of the root for Markdown files, breadth first, without the names `excluded` in the root. If not all
    could be scanned, the `known` files are checked one by one."""
    found = FileScan()
    began = time.monotonic()
    _walk(found, root, start, excluded)
    if not found.complete:
        for path in known:
            if path not in found.files and len(found.files) < MAX_FILES:
                _scan_file(found, root, path)
    found.seconds = time.monotonic() - began
    return found


def _walk(found: FileScan, root: Path, start: str, without: frozenset[str]) -> None:
    left = MAX_ENTRIES
    until = time.monotonic() + SCAN_SECONDS
    waiting: deque[tuple[str, int]] = deque([(start, 0)])
    while waiting and found.complete:
        folder, depth = waiting.popleft()
        try:
            entries, all_of_it = SafePath(root, root / folder, folder).entries(left)
        except ToolFailure:  # it is missing, or is no longer a folder
            continue
        left -= len(entries)
        found.complete = all_of_it and left > 0 and time.monotonic() < until
        for path, about in _scannable(folder, entries, without):
            if stat.S_ISDIR(about.st_mode) and depth < MAX_DEPTH:
                waiting.append((path, depth + 1))
            elif stat.S_ISREG(about.st_mode) and path.endswith(SUFFIX):
                if len(found.files) == MAX_FILES:
                    found.complete = False
                    return
                found.files[path] = _to_scanned_file(about)


def _scan_file(found: FileScan, root: Path, path: str) -> None:
    try:
        about = SafePath(root, root / path, path).lstat()
    except ToolFailure:  # a folder on the way is gone
        return
    if about is not None and stat.S_ISREG(about.st_mode):
        found.files[path] = _to_scanned_file(about)


def _scannable(
    folder: str, entries: list[tuple[str, os.stat_result]], without: frozenset[str]
) -> Iterator[tuple[str, os.stat_result]]:
    for name, about in sorted(entries, key=lambda entry: entry[0]):
        path = f"{folder}/{name}" if folder else name
        if not name.startswith(".") and name not in SKIPPED_FOLDERS and path not in without and _is_printable(name):
            yield path, about


def _is_printable(name: str) -> bool:
    """Return whether a name can be shown to a model, since a name may be any bytes."""
    return name.isprintable()


def _to_scanned_file(about: os.stat_result) -> ScannedFile:
    racy = "?" if time.time_ns() - about.st_mtime_ns < RACY_NS else ""
    facts = (about.st_dev, about.st_ino, about.st_size, about.st_mtime_ns, about.st_ctime_ns)
    return ScannedFile(":".join(map(str, facts)) + racy, clamp_to_calendar(about.st_mtime_ns // 1_000_000))
