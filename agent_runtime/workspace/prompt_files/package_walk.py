"""Find the SKILL.md files below a folder of skill packages, in a bounded walk."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path, PurePosixPath

PACKAGE_FILE = "SKILL.md"
MAX_DEPTH = 6
"""Levels of folders below one of packages: marketplaces are published as `author/plugins/plugin/skills/package`."""
MAX_FOLDERS = 400
"""Folders that are looked into, at the top and in all."""
MAX_ENTRIES = 1000
"""Entries of a folder in which the file is looked for."""
MAX_ALL_ENTRIES = 10_000
"""Entries of all folders together: agents can make any number, and every call that may write walks by them."""
MAX_BEYOND = 2
"""Levels below a package, a link or the deepest folder in which further packages are noted."""
SKIPPED_FOLDERS = frozenset({".git", ".hg", ".svn", ".venv", "__pycache__", "node_modules"})
OWN_FOLDERS = frozenset({"assets", "examples", "references", "scripts", "templates"})
"""Folders of a package in which a SKILL.md is a sample."""
ARCHIVES = (".skill", ".zip", ".tar.gz", ".tgz")
"""Endings of files as which packages are handed on."""

Entry = tuple[str, bool]
"""Name of an entry of a folder, and whether it is a folder, or a link and so may lead to one."""

A_LINK = (
    "is a link to a folder of packages, which is not followed here: link each package, "
    "or name the folder in AGENT_SKILL_PATHS"
)
INSIDE = "lies in another package, and is not looked for there: move it beside that one"
TOO_DEEP = f"lies more than {MAX_DEPTH} folders deep: move it up"


@dataclass(slots=True)
class PackageWalk:
    """One walk below a folder of packages, the upper folders first: what lies deep takes nothing from what does not."""

    folder: Path
    may_follow: Callable[[PurePosixPath], bool]
    """Whether packages are looked for below a link at the top. A link that lies deeper is a package itself or nothing,
    as it may lead in circles."""
    note: Callable[[PurePosixPath, str], None] | None = None
    """Called with each package that is passed over, and the reason. None: they are not looked for."""
    whole: bool = field(default=True, init=False)
    """False once something was passed over, since there is too much."""
    texts: list[PurePosixPath] = field(default_factory=list[PurePosixPath], init=False)
    """Files that may be meant as packages: Markdown and archives of the folder, and of those at its top that are no
    packages, and at any depth what is nearly called SKILL.md."""
    _folders: int = field(default=MAX_FOLDERS, init=False)
    _left: int = field(default=MAX_ALL_ENTRIES, init=False)

    def packages(self, entries: list[Entry]) -> Iterator[tuple[PurePosixPath, str]]:
        """Yield the folders of packages, relative to `folder`, each with the name of its SKILL.md, in whatever case
        that is written. What a package holds is not looked into. `entries`: those of the folder to look into."""
        self.texts += _texts(PurePosixPath(), entries)
        todo = deque(_subfolders(PurePosixPath(), entries)[:MAX_FOLDERS])
        passed: list[tuple[PurePosixPath, str]] = []
        while todo and self._folders:
            at = todo.popleft()
            self._folders -= 1
            if _is_package(self.folder / at):
                yield at, PACKAGE_FILE
                passed.append((at, INSIDE))
                continue
            entries = self._entries(self.folder / at)
            if (name := next((name for name, _ in entries if is_package_file(name)), None)) is not None:
                yield at, name
                passed.append((at, INSIDE))
            elif (is_link := (self.folder / at).is_symlink()) and len(at.parts) > 1:
                passed.append((at, A_LINK))
            elif len(at.parts) == MAX_DEPTH:
                self.texts += [one for one in _texts(at, entries) if is_nearly_package(one.name)]
                passed.append((at, TOO_DEEP))
            elif entries and (not is_link or self.may_follow(at)):
                todo += _subfolders(at, entries)
                self.texts += [one for one in _texts(at, entries) if len(at.parts) == 1 or is_nearly_package(one.name)]
        self.whole &= not todo
        if self.note is not None:
            self._note_passed(passed, self.note)

    def _note_passed(self, passed: list[tuple[PurePosixPath, str]], note: Callable[[PurePosixPath, str], None]) -> None:
        """Note packages below these, as far as folders and entries are left: none of them would be offered."""
        whole = self.whole
        todo = deque((at, at, reason) for at, reason in passed)
        while todo and self._folders:
            at, root, reason = todo.popleft()
            self._folders -= 1
            for below in _subfolders(at, self._entries(self.folder / at)):
                if below.name in OWN_FOLDERS or (self.folder / below).is_symlink():
                    continue
                if _is_package(self.folder / below):
                    note(root if reason is A_LINK else below, reason)
                elif len(below.parts) < len(root.parts) + MAX_BEYOND:
                    todo.append((below, root, reason))
        self.whole = whole

    def _entries(self, folder: Path) -> list[Entry]:
        """Return the entries, sorted; nothing of a folder that cannot be read."""
        most = min(MAX_ENTRIES, self._left)
        if not most:
            self.whole = False
            return []
        try:
            with os.scandir(folder) as found:
                entries = sorted((one.name, may_be_folder(one)) for one in islice(found, most))
                self.whole &= next(found, None) is None
        except OSError:
            return []
        self._left -= len(entries)
        return entries


def is_package_file(name: str) -> bool:
    return name.lower() == PACKAGE_FILE.lower()


def is_nearly_package(name: str) -> bool:
    """Return whether a file may be meant as a SKILL.md: Windows hides a second ending."""
    stem, _, endings = name.lower().partition(".")
    return stem.strip() in ("skill", "skills") and (not endings or any(one in endings for one in ("md", "mark", "txt")))


def may_be_folder(entry: os.DirEntry[str]) -> bool:
    """Return whether an entry is a folder or a link, without a look at where that leads, which may take long."""
    return entry.is_symlink() or entry.is_dir(follow_symlinks=False)


def _is_package(folder: Path) -> bool:
    try:
        os.lstat(folder / PACKAGE_FILE)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except (OSError, ValueError):  # whoever reads it says what is wrong
        return True
    return True


def _subfolders(at: PurePosixPath, entries: list[Entry]) -> list[PurePosixPath]:
    return [at / name for name, is_folder in entries if is_folder and name not in SKIPPED_FOLDERS]


def _texts(at: PurePosixPath, entries: list[Entry]) -> list[PurePosixPath]:
    names = [name for name, is_folder in entries if not is_folder and not is_package_file(name)]
    return [at / name for name in names if name.lower().endswith((".md", *ARCHIVES)) or is_nearly_package(name)]
