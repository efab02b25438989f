"""The files of a package: what there is, and copies of it where commands and tools can reach them."""

from __future__ import annotations

import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from ...errors import ToolFailure
from ...workspace import SafePath
from . import front_matter

LEFT_ALONE = frozenset({".git", ".hg", ".svn", ".venv", "__pycache__", "node_modules"})
MOST = 500
"""Files of a package."""
LARGEST = 16 * 1024 * 1024
"""Bytes of all of them together, where they are copied."""
FOLDERS, DEEPEST, ENTRIES = 200, 8, 2000
"""Folders that are looked into, how deep, and entries of each that are looked at."""


@dataclass(frozen=True, slots=True)
class PackageFile:
    path: str
    """Below the folder of the package, with slashes."""
    size: int
    executable: bool


@dataclass(frozen=True, slots=True)
class PackageFiles:
    """Regular files by path. Links are not followed: a package from elsewhere may not fetch what is not its own."""

    all: tuple[PackageFile, ...] = ()
    left_out: int = 0
    """Links, odd names, and what goes beyond the bounds; a folder counts as one."""

    @property
    def size(self) -> int:
        return sum(file.size for file in self.all)

    def within(self, size: int) -> PackageFiles:
        """As many as fit into so many bytes."""
        kept: list[PackageFile] = []
        for file in self.all:
            if file.size <= size:
                size -= file.size
                kept.append(file)
        return PackageFiles(tuple(kept), self.left_out + len(self.all) - len(kept))


def files_of(folder: SafePath) -> PackageFiles:
    """The files of a package. What cannot be looked at is left out."""
    found: list[PackageFile] = []
    todo, seen, left_out = [PurePosixPath()], 0, 0
    while todo:
        here = todo.pop()
        seen += 1
        if seen > FOLDERS or len(here.parts) > DEEPEST or len(found) > MOST:
            left_out += 1
            continue
        try:
            entries, whole = _below(folder, str(here)).entries(ENTRIES)
        except ToolFailure:
            left_out += 1
            continue
        left_out += not whole
        for name, about in entries:
            if name in LEFT_ALONE:
                continue
            if stat.S_ISDIR(about.st_mode):
                todo.append(here / name)
            elif stat.S_ISREG(about.st_mode) and front_matter.one_line(name) == name:
                found.append(PackageFile(str(here / name), about.st_size, bool(about.st_mode & 0o111)))
            else:
                left_out += 1
    found.sort(key=lambda file: file.path)
    return PackageFiles(tuple(found[:MOST]), left_out + len(found[MOST:]))


def copy(files: Sequence[PackageFile], source: SafePath, target: SafePath) -> int:
    """Puts the files of one folder into another one; how many could not be read.

    Raises ToolFailure when one cannot be written: commands own the target, and may have put something in the way.
    """
    missing, room = 0, LARGEST
    for file in files:
        try:
            with _below(source, file.path).open() as opened:
                data = opened.read(room + 1)
        except ToolFailure:
            missing += 1
            continue
        if len(data) > room:  # it has grown since it was counted
            missing += 1
            continue
        room -= len(data)
        _below(target, file.path).publish(data, mode=0o755 if file.executable else 0o644, durable=False)
    return missing


def _below(folder: SafePath, path: str) -> SafePath:
    return SafePath(folder.root, folder.path / path, path)
