"""Find the SKILL.md files below a folder of skill packages, in a bounded walk."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path, PurePosixPath

PACKAGE_FILE = "SKILL.md"
MAX_DEPTH = 4
"""Levels of folders below one of packages: repositories of many authors are published as `author/skills/package`."""
MAX_FOLDERS = 400
"""Folders that are looked into, at the top and in all."""
MAX_ENTRIES = 1000
"""Entries of a folder in which the file is looked for."""
MAX_ALL_ENTRIES = 10_000
"""Entries of all folders together: agents can make any number, and every call that may write walks by them."""
SKIPPED_FOLDERS = frozenset({".git", ".hg", ".svn", ".venv", "__pycache__", "node_modules"})


@dataclass(slots=True)
class PackageWalk:
    """One walk below a folder of packages."""

    folder: Path
    follow_links: bool = False
    """Whether packages are looked for below one that is a link; else it is a package itself, or nothing."""
    whole: bool = field(default=True, init=False)
    """False once something was passed over, since there is too much."""
    _left: int = field(default=MAX_ALL_ENTRIES, init=False)

    def packages(self, names: Iterator[str]) -> Iterator[tuple[PurePosixPath, str]]:
        """Yield the folders of packages, relative to `folder`, each with the name of its SKILL.md, in whatever case
        that is written. What a package holds is not looked into. `names`: the entries of the folder to look into."""
        todo = [PurePosixPath(name) for name in islice(names, MAX_FOLDERS)][::-1]
        left = MAX_FOLDERS
        while todo and left:
            at = todo.pop()
            left -= 1
            if _is_package(self.folder / at):
                yield at, PACKAGE_FILE
                continue
            entries = self._entries(self.folder / at)
            if (name := next((name for name, _ in entries if name.lower() == PACKAGE_FILE.lower()), None)) is not None:
                yield at, name
            elif len(at.parts) < MAX_DEPTH and (self.follow_links or not (self.folder / at).is_symlink()):
                todo += [at / name for name in _subfolders(entries)][::-1]
        self.whole &= not todo

    def _entries(self, folder: Path) -> list[tuple[str, bool]]:
        """Return names and whether they are folders, sorted; nothing of a folder that cannot be read."""
        most = min(MAX_ENTRIES, self._left)
        if not most:
            self.whole = False
            return []
        try:
            with os.scandir(folder) as found:
                entries = sorted((one.name, one.is_dir(follow_symlinks=False)) for one in islice(found, most))
                self.whole &= next(found, None) is None
        except OSError:
            return []
        self._left -= len(entries)
        return entries


def _is_package(folder: Path) -> bool:
    try:
        os.lstat(folder / PACKAGE_FILE)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except (OSError, ValueError):  # whoever reads it says what is wrong
        return True
    return True


def _subfolders(entries: list[tuple[str, bool]]) -> list[str]:
    """Return the folders, without links, which may lead in circles."""
    return [name for name, is_folder in entries if is_folder and name[0] != "." and name not in SKIPPED_FOLDERS]
