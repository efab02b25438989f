"""The files that become instructions of all sessions, and so have their authors kept."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from ..home import Home
from ..symlinks import MAX_LINK_STEPS, TooFar, is_below, resolve_links
from .package_walk import PackageWalk

INSTRUCTION_NAMES = ("AGENTS.md", "CLAUDE.md", "CONTEXT.md")
"""Names of files with instructions for a folder, in the order in which one folder's files are shown."""
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
    workspace = Path(os.path.realpath(home.workspace))
    left = MAX_STEPS
    for path, is_link in _package_files(workspace):
        if not is_link:
            yield path
        elif left > 0:
            real, steps = _resolve(path)
            left -= steps
            if real is not None and is_below(real, workspace):
                yield real


def state_of(path: Path) -> State | None:
    """Return the state of a file; None if it is missing, or no file."""
    try:
        found = os.lstat(path)
    except OSError:
        return None
    regular = stat.S_ISREG(found.st_mode)
    return (found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns) if regular else None


def _package_files(workspace: Path) -> Iterator[tuple[Path, bool]]:
    """Yield each SKILL.md, and whether it, or the folder of its package, is a link."""
    for name in PACKAGE_FOLDERS:
        folder, _ = _resolve(workspace / name)
        if folder is None or not is_below(folder, workspace):
            continue
        for at, file in PackageWalk(folder).packages(_folder_names(folder)):
            path = folder / at / file
            yield path, path.is_symlink() or (folder / at.parts[0]).is_symlink()


def _folder_names(folder: Path) -> Iterator[str]:
    """Yield the names of the folders in a folder, and of links that may lead to folders, sorted."""
    try:
        with os.scandir(folder) as entries:
            found = [one.name for one in islice(entries, MAX_NAMES) if one.name[0] != "." and _may_be_folder(one)]
    except OSError:
        return
    yield from sorted(found)


def _may_be_folder(entry: os.DirEntry[str]) -> bool:
    return entry.is_symlink() or entry.is_dir(follow_symlinks=False)


def _resolve(path: Path) -> tuple[Path | None, int]:
    """Return the path without links, None if it leads through too many, and the steps that this took."""
    try:
        return resolve_links(path)
    except TooFar:
        return None, MAX_LINK_STEPS
