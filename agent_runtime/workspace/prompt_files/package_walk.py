"""Find the SKILL.md files below a folder of skill packages, in a bounded walk."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import islice
from pathlib import Path, PurePosixPath

PACKAGE_FILE = "SKILL.md"
MAX_DEPTH = 4
"""Levels of folders below one of packages: repositories of many authors are published as `author/skills/package`."""
MAX_FOLDERS = 400
"""Folders that are looked into, at the top and in all."""
MAX_ENTRIES = 1000
"""Entries of a folder in which the file is looked for."""
SKIPPED_FOLDERS = frozenset({".git", ".hg", ".svn", ".venv", "__pycache__", "node_modules"})


def package_files(
    folder: Path, names: Iterator[str], *, follow_links: bool = False
) -> Iterator[tuple[PurePosixPath, str]]:
    """Yield the folders of packages, relative to `folder`, each with the name of its SKILL.md, in whatever case that is
    written. What a package holds is not looked into.

    `names`: the entries of the folder to look into. `follow_links`: whether packages are looked for below one that is a
    link; else it is a package itself, or nothing.
    """
    todo = [PurePosixPath(name) for name in islice(names, MAX_FOLDERS)][::-1]
    left = MAX_FOLDERS
    while todo and left:
        at = todo.pop()
        left -= 1
        if (name := _package_file(folder / at)) is not None:
            yield at, name
        elif len(at.parts) < MAX_DEPTH and (follow_links or not (folder / at).is_symlink()):
            todo += [at / name for name in _subfolders(folder / at)][::-1]


def _package_file(folder: Path) -> str | None:
    try:
        os.lstat(folder / PACKAGE_FILE)
        return PACKAGE_FILE
    except (FileNotFoundError, NotADirectoryError):
        pass
    except (OSError, ValueError):  # whoever reads it says what is wrong
        return PACKAGE_FILE
    return next((name for name, _ in _entries(folder) if name.lower() == PACKAGE_FILE.lower()), None)


def _subfolders(folder: Path) -> list[str]:
    """Return the folders in a folder, without links, which may lead in circles."""
    return [
        name for name, is_folder in _entries(folder) if is_folder and name[0] != "." and name not in SKIPPED_FOLDERS
    ]


def _entries(folder: Path) -> list[tuple[str, bool]]:
    """Return names and whether they are folders, sorted; nothing of a folder that cannot be read."""
    try:
        with os.scandir(folder) as found:
            return sorted((one.name, one.is_dir(follow_symlinks=False)) for one in islice(found, MAX_ENTRIES))
    except OSError:
        return []
