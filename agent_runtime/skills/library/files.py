"""List the files of a package, and copy them to where commands and tools can reach them."""

from __future__ import annotations

import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from ...errors import ToolFailure
from ...workspace import SafePath
from . import front_matter

SKIPPED_FOLDERS = frozenset({".git", ".hg", ".svn", ".venv", "__pycache__", "node_modules"})
MAX_FILES = 500
"""Files of a package; further ones are left out."""
MAX_COPY_BYTES = 16 * 1024 * 1024
"""Bytes of all files that are copied for one package."""
MAX_FOLDERS = 200
MAX_DEPTH = 8
MAX_ENTRIES = 2000
"""Folders of a package that are listed, their depth, and the entries of each that are listed."""


@dataclass(frozen=True, slots=True)
class PackageFile:
    path: str
    """Relative to the folder of the package, with slashes."""
    size: int
    executable: bool


@dataclass(frozen=True, slots=True)
class PackageFiles:
    """Regular files by path. Links are not followed: a foreign package must not reach files outside its folder."""

    files: tuple[PackageFile, ...] = ()
    left_out: int = 0
    """Number of entries left out: links, unprintable names, and those beyond the limits; a folder counts as one."""

    @property
    def size(self) -> int:
        return sum(file.size for file in self.files)

    def limit_size(self, size: int) -> PackageFiles:
        """Return the files that fit into `size` bytes together, in order."""
        kept: list[PackageFile] = []
        for file in self.files:
            if file.size <= size:
                size -= file.size
                kept.append(file)
        return PackageFiles(tuple(kept), self.left_out + len(self.files) - len(kept))


def list_package_files(folder: SafePath) -> PackageFiles:
    """Return the files of a package. Entries that cannot be read are left out."""
    found: list[PackageFile] = []
    todo = [PurePosixPath()]
    seen = 0
    left_out = 0
    while todo:
        here = todo.pop()
        seen += 1
        if seen > MAX_FOLDERS or len(here.parts) > MAX_DEPTH or len(found) > MAX_FILES:
            left_out += 1
            continue
        try:
            entries, whole = _child_path(folder, str(here)).entries(MAX_ENTRIES)
        except ToolFailure:
            left_out += 1
            continue
        left_out += not whole
        for name, about in entries:
            if name in SKIPPED_FOLDERS:
                continue
            if stat.S_ISDIR(about.st_mode):
                todo.append(here / name)
            elif stat.S_ISREG(about.st_mode) and front_matter.one_line(name) == name:
                found.append(PackageFile(str(here / name), about.st_size, bool(about.st_mode & 0o111)))
            else:
                left_out += 1
    found.sort(key=lambda file: file.path)
    return PackageFiles(tuple(found[:MAX_FILES]), left_out + len(found[MAX_FILES:]))


def copy_files(files: Sequence[PackageFile], source: SafePath, target: SafePath) -> int:
    """Copy files from one folder to another. Return how many could not be read.

    Raises ToolFailure if one cannot be written: commands may have put something in its way.
    """
    missing = 0
    bytes_left = MAX_COPY_BYTES
    for file in files:
        try:
            with _child_path(source, file.path).open() as opened:
                data = opened.read(bytes_left + 1)
        except ToolFailure:
            missing += 1
            continue
        if len(data) > bytes_left:  # the file has grown since it was listed
            missing += 1
            continue
        bytes_left -= len(data)
        _child_path(target, file.path).write_atomically(data, mode=0o755 if file.executable else 0o644, durable=False)
    return missing


def _child_path(folder: SafePath, path: str) -> SafePath:
    return SafePath(folder.root, folder.path / path, path)
