"""Change the owner of a folder and of everything in it, but of nothing outside.

Commands may have filled the folder and may be changing it meanwhile. So every file is opened without following links,
and its descriptor, never its name, is checked and chowned.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

SECONDS = 300.0
"""Maximum seconds for one folder."""
MAX_NAMED = 20
"""Maximum skipped files that are named; others are only counted."""
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_ANYTHING = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(slots=True)
class SkippedFiles:
    """Files that keep their owner: devices, what is mounted read-only, and files with other hard links, which may be
    outside the folder."""

    count: int = 0
    paths: list[str] = field(default_factory=list[str])

    def add(self, path: str) -> None:
        self.count += 1
        if len(self.paths) < MAX_NAMED:
            self.paths.append(path)


@dataclass(slots=True)
class _Level:
    """A folder on the path from the root to the open one."""

    path: str
    identity: tuple[int, int]
    unvisited: list[str]


def chown_tree(root: Path, uid: int, skipped: SkippedFiles) -> None:
    """Make a user and its group the owner of a folder and everything in it; entries that keep their owner are added to
    `skipped`. Raises OSError.

    At most two folders are open at a time, so any depth is possible.
    """
    deadline = time.monotonic() + SECONDS
    here = os.open(root, _FOLDER)
    try:
        os.fchown(here, uid, uid)
        levels = [_chown_entries(here, str(root), uid, skipped)]
        while levels:
            if time.monotonic() > deadline:
                raise OSError(f"{root} could not be chowned within {SECONDS:.0f} s")
            below: int | None = None
            if levels[-1].unvisited:
                name = levels[-1].unvisited.pop()
                with suppress(FileNotFoundError, NotADirectoryError):  # changed meanwhile, and not chowned
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
                    raise OSError(f"{levels[-1].path} was moved while it was chowned")
    finally:
        os.close(here)


def _chown_entries(folder: int, path: str, uid: int, skipped: SkippedFiles) -> _Level:
    """Chown the entries of an open folder."""
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
    """Chown one entry; a link itself, not its target. Returns False if the entry keeps its owner."""
    opened = os.open(name, _ANYTHING, dir_fd=folder)
    try:
        found = os.fstat(opened)
        if stat.S_ISCHR(found.st_mode) or stat.S_ISBLK(found.st_mode):
            return False
        if found.st_nlink > 1 and not stat.S_ISDIR(found.st_mode):
            return False
        os.chown(f"/proc/self/fd/{opened}", uid, uid)  # not by path, which may name another file now
    except OSError as error:
        if error.errno != errno.EROFS:
            raise
        return False
    finally:
        os.close(opened)
    return True


def _identity(folder: int) -> tuple[int, int]:
    found = os.fstat(folder)
    return found.st_dev, found.st_ino
