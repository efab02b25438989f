"""Which Markdown files there are, without following links: commands write here, and may put anything in the way."""

from __future__ import annotations

import os
import stat
import time
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from ...errors import ToolFailure
from ...workspace import SafePath

MAX_DEPTH = 8
MAX_ENTRIES = 20_000
"""Names that are looked at in all."""
MAX_FILES = 2000
SCAN_SECONDS = 1.0
"""After which no further folder is looked into."""
SUFFIX = ".md"
SKIPPED_FOLDERS = frozenset({"node_modules", "__pycache__", "site-packages", "venv"})
"""Folders of other people's files. What begins with a dot is left out too."""
RACY_NS = 100_000_000
"""Nanoseconds after a change in which another one may leave the same times behind."""


@dataclass(frozen=True, slots=True)
class ScannedFile:
    """A file as it lay there."""

    signature: str
    """Another one when it has changed."""
    at: int
    """When it was written, epoch milliseconds."""


@dataclass(slots=True)
class FileScan:
    """What a look at a folder has found."""

    files: dict[str, ScannedFile] = field(default_factory=dict[str, ScannedFile])
    """By path from the root. What is not among them is not there, or there is too much."""
    complete: bool = True
    """That is all there is."""
    seconds: float = 0.0
    """That the look took."""


def scan(root: Path, start: str = "", excluded: frozenset[str] = frozenset(), known: Iterable[str] = ()) -> FileScan:
    """The files below a folder of the root, those near to it first; `excluded` are names directly in the root. Where
    not all could be looked at, files that were `known` before are looked for by name."""
    looked, began = FileScan(), time.monotonic()
    _walk(looked, root, start, excluded)
    if not looked.complete:
        for path in known:
            if path not in looked.files and len(looked.files) < MAX_FILES:
                _scan_file(looked, root, path)
    looked.seconds = time.monotonic() - began
    return looked


def _walk(found: FileScan, root: Path, start: str, without: frozenset[str]) -> None:
    left, until = MAX_ENTRIES, time.monotonic() + SCAN_SECONDS
    waiting: deque[tuple[str, int]] = deque([(start, 0)])
    while waiting and found.complete:
        folder, depth = waiting.popleft()
        try:
            entries, all_of_it = SafePath(root, root / folder, folder).entries(left)
        except ToolFailure:  # it is not there, or it is no folder any more
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
    except ToolFailure:  # a part of the way is no folder any more
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
    """Whether it can be told to a model: any bytes may be a name."""
    return name.isprintable()


def _to_scanned_file(about: os.stat_result) -> ScannedFile:
    racy = "?" if time.time_ns() - about.st_mtime_ns < RACY_NS else ""
    facts = (about.st_dev, about.st_ino, about.st_size, about.st_mtime_ns, about.st_ctime_ns)
    return ScannedFile(":".join(map(str, facts)) + racy, about.st_mtime_ns // 1_000_000)
