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

DEPTH = 8
MOST_ENTRIES = 20_000
"""Names that are looked at in all."""
MOST_FILES = 2000
SECONDS = 1.0
"""After which no further folder is looked into."""
SUFFIX = ".md"
LEFT_OUT = frozenset({"node_modules", "__pycache__", "site-packages", "venv"})
"""Folders of other people's files. What begins with a dot is left out too."""
RACY = 100_000_000
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
    whole: bool = True
    """That is all there is."""
    seconds: float = 0.0
    """That the look took."""


def look(root: Path, start: str = "", without: frozenset[str] = frozenset(), known: Iterable[str] = ()) -> FileScan:
    """The files below a folder of the root, those near to it first; `without` are names directly in the root. Where not
    all could be looked at, files that were `known` before are looked for by name."""
    looked, began = FileScan(), time.monotonic()
    _walk(looked, root, start, without)
    if not looked.whole:
        for path in known:
            if path not in looked.files and len(looked.files) < MOST_FILES:
                _look_for(looked, root, path)
    looked.seconds = time.monotonic() - began
    return looked


def _walk(looked: FileScan, root: Path, start: str, without: frozenset[str]) -> None:
    left, until = MOST_ENTRIES, time.monotonic() + SECONDS
    waiting: deque[tuple[str, int]] = deque([(start, 0)])
    while waiting and looked.whole:
        folder, depth = waiting.popleft()
        try:
            entries, all_of_it = SafePath(root, root / folder, folder).entries(left)
        except ToolFailure:  # it is not there, or it is no folder any more
            continue
        left -= len(entries)
        looked.whole = all_of_it and left > 0 and time.monotonic() < until
        for path, about in _named(folder, entries, without):
            if stat.S_ISDIR(about.st_mode) and depth < DEPTH:
                waiting.append((path, depth + 1))
            elif stat.S_ISREG(about.st_mode) and path.endswith(SUFFIX):
                if len(looked.files) == MOST_FILES:
                    looked.whole = False
                    return
                looked.files[path] = _seen(about)


def _look_for(looked: FileScan, root: Path, path: str) -> None:
    try:
        about = SafePath(root, root / path, path).look()
    except ToolFailure:  # a part of the way is no folder any more
        return
    if about is not None and stat.S_ISREG(about.st_mode):
        looked.files[path] = _seen(about)


def _named(
    folder: str, entries: list[tuple[str, os.stat_result]], without: frozenset[str]
) -> Iterator[tuple[str, os.stat_result]]:
    for name, about in sorted(entries, key=lambda entry: entry[0]):
        path = f"{folder}/{name}" if folder else name
        if not name.startswith(".") and name not in LEFT_OUT and path not in without and _is_plain(name):
            yield path, about


def _is_plain(name: str) -> bool:
    """Whether it can be told to a model: any bytes may be a name."""
    return name.isprintable()


def _seen(about: os.stat_result) -> ScannedFile:
    racy = "?" if time.time_ns() - about.st_mtime_ns < RACY else ""
    facts = (about.st_dev, about.st_ino, about.st_size, about.st_mtime_ns, about.st_ctime_ns)
    return ScannedFile(":".join(map(str, facts)) + racy, about.st_mtime_ns // 1_000_000)
