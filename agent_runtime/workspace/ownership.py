"""Give a folder to another user, with all that is in it and nothing that is elsewhere.

Commands may have filled the folder, and others may change it meanwhile. So every file is opened without following a
link, and the descriptor is looked at and given away, never a name.
"""

from __future__ import annotations

import os
import stat
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

SECONDS = 300.0
"""The longest that one folder may take."""
MAX_NAMED = 20
"""Files left that are named; the others are only counted."""
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_ANYTHING = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(slots=True)
class SkippedFiles:
    """Files that keep their owner: those with a second name, which may lie outside of the folder, and devices."""

    count: int = 0
    paths: list[str] = field(default_factory=list[str])

    def add(self, path: str) -> None:
        self.count += 1
        if len(self.paths) < MAX_NAMED:
            self.paths.append(path)


@dataclass(slots=True)
class _Level:
    """A folder on the way from the root to the one that is open."""

    path: str
    identity: tuple[int, int]
    unvisited: list[str]


def chown_tree(root: Path, uid: int, skipped: SkippedFiles) -> None:
    """Make this user, and its group, the owner of a folder and all that is in it; add what keeps its owner to `left`.
    Raises OSError.

    At most two folders are open at a time, so that no depth is too much.
    """
    deadline = time.monotonic() + SECONDS
    here = os.open(root, _FOLDER)
    try:
        os.fchown(here, uid, uid)
        levels = [_chown_entries(here, str(root), uid, skipped)]
        while levels:
            if time.monotonic() > deadline:
                raise OSError(f"{root} takes longer than {SECONDS:.0f} s")
            below: int | None = None
            if levels[-1].unvisited:
                name = levels[-1].unvisited.pop()
                with suppress(FileNotFoundError, NotADirectoryError):  # it has changed since, and was not given away
                    below = os.open(name, _FOLDER, dir_fd=here)
                    levels.append(_chown_entries(below, os.path.join(levels[-1].path, name), uid, skipped))
            else:
                levels.pop()
                if levels:
                    below = os.open("..", _FOLDER, dir_fd=here)
            if below is not None:
                os.close(here)
                here = below
                if _identity(here) != levels[-1].identity:
                    raise OSError(f"{levels[-1].path} was moved while it was given away")
    finally:
        os.close(here)


def _chown_entries(folder: int, path: str, uid: int, skipped: SkippedFiles) -> _Level:
    """Give away the entries of an open folder."""
    unvisited: list[str] = []
    with os.scandir(folder) as entries:
        for entry in entries:
            with suppress(FileNotFoundError):
                found = entry.stat(follow_symlinks=False)
                if stat.S_ISDIR(found.st_mode):
                    unvisited.append(entry.name)
                if (found.st_uid, found.st_gid) != (uid, uid) and not _chown_entry(entry.name, folder, uid):
                    skipped.add(os.path.join(path, entry.name))
    return _Level(path, _identity(folder), unvisited)


def _chown_entry(name: str, folder: int, uid: int) -> bool:
    """Give one entry away, a link as a link; False for what keeps its owner."""
    opened = os.open(name, _ANYTHING, dir_fd=folder)
    try:
        found = os.fstat(opened)
        if stat.S_ISCHR(found.st_mode) or stat.S_ISBLK(found.st_mode):
            return False
        if found.st_nlink > 1 and not stat.S_ISDIR(found.st_mode):
            return False
        os.chown(f"/proc/self/fd/{opened}", uid, uid)  # not by path, which may lead elsewhere now
    finally:
        os.close(opened)
    return True


def _identity(folder: int) -> tuple[int, int]:
    found = os.fstat(folder)
    return found.st_dev, found.st_ino
