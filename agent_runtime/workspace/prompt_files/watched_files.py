"""The files that become instructions of all sessions, and so have their authors kept."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from ..home import Home
from ..symlinks import MAX_LINK_STEPS, TooFar, is_below, resolve_links
from .nested_files import INSTRUCTION_NAMES, NestedFiles
from .package_walk import Entry, PackageWalk, may_be_folder

PACKAGE_FOLDERS = (".agents/skills", ".claude/skills")
"""Where a workspace has its skill packages."""
NOTES = ("learnings/corrections.md", "learnings/errors.md")
MAX_NAMES = 5000
"""Entries of a folder of packages among which folders are looked for."""
State = tuple[int, int, int, int]
"""Inode, size, and times of last change: different after every write."""
MAX_STEPS = 10_000
"""Steps in all that links to packages may take: the server waits for some hundredths of a second."""
_TOP = (*INSTRUCTION_NAMES, "SOUL.md", "USER.md", "MEMORY.md")


def is_instructions(parts: tuple[str, ...]) -> bool:
    """Return whether a path below the workspace is a file that becomes instructions, or a part of a package."""
    if not parts:
        return False
    path = "/".join(parts)
    return parts[-1] in INSTRUCTION_NAMES or path in (*_TOP, *NOTES) or "/".join(parts[:2]) in PACKAGE_FOLDERS


def watched_files(home: Home) -> Iterator[Path]:
    """Yield the paths of these files, whether they are there or not. A package is where links to it lead, within the
    workspace, as it is for those who read it. Time is bounded whatever the folders hold."""
    for folder in dict.fromkeys((home.workspace, home.records)):
        yield from (folder / name for name in (*_TOP, *NOTES))
    yield from (home.workspace / path for paths in NestedFiles(home.workspace).found for path in paths)
    links = _Links(Path(os.path.realpath(home.workspace)))
    for path, is_link in _package_files(links):
        real = links.resolve(path) if is_link else path
        if real is not None:
            yield real


def state_of(path: Path) -> State | None:
    """Return the state of a file; None if it is missing, or no file."""
    try:
        found = os.lstat(path)
    except OSError:
        return None
    regular = stat.S_ISREG(found.st_mode)
    return (found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns) if regular else None


@dataclass(slots=True)
class _Links:
    """Where links to packages lead, in so many steps for all."""

    workspace: Path
    _left: int = MAX_STEPS

    def resolve(self, path: Path) -> Path | None:
        """Return the path without links; None if it is not in the workspace, or too far."""
        if self._left <= 0:
            return None
        real, steps = _resolve(path)
        self._left -= steps
        return real if real is not None and is_below(real, self.workspace) else None


def _package_files(links: _Links) -> Iterator[tuple[Path, bool]]:
    """Yield each SKILL.md, and whether it, or a folder on the way to it, is a link."""
    for name in PACKAGE_FOLDERS:
        folder, _ = _resolve(links.workspace / name)
        if folder is None or not is_below(folder, links.workspace):
            continue
        walk = PackageWalk(folder, lambda at, folder=folder: links.resolve(folder / at) is not None)
        for at, file in walk.packages(_folders(folder)):
            path = folder / at / file
            yield path, any(part.is_symlink() for part in (path, *path.parents[: len(at.parts)]))


def _folders(folder: Path) -> list[Entry]:
    """Return the folders in a folder, and links that may lead to folders, sorted."""
    try:
        with os.scandir(folder) as entries:
            return sorted((one.name, True) for one in islice(entries, MAX_NAMES) if may_be_folder(one))
    except OSError:
        return []


def _resolve(path: Path) -> tuple[Path | None, int]:
    """Return the path without links, None if it leads through too many, and the steps that this took."""
    try:
        return resolve_links(path)
    except TooFar:
        return None, MAX_LINK_STEPS
