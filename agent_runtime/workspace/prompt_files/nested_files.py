"""Find the files with instructions in subfolders of a workspace, in a bounded walk."""

from __future__ import annotations

import os
import re
from collections import deque
from contextlib import suppress
from itertools import islice
from pathlib import Path

INSTRUCTION_NAMES = ("AGENTS.md", "CLAUDE.md", "CONTEXT.md")
"""Names of files with instructions for a folder, in the order in which one folder's files are shown."""
MAX_DEPTH = 4
MAX_FOLDERS = 32
MAX_ENTRIES = 2_000
"""Limits of the search in subfolders: depth, folders, and entries in all folders together."""
SKIPPED_FOLDERS = frozenset({"__pycache__", "build", "dist", "learnings", "memory", "node_modules", "target", "venv"})
_LISTED = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_PLAIN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+@-]{0,39}")
"""Folder names that may stand in a prompt: whoever makes a folder chooses it, and such a one has no room for prose."""


class NestedFiles:
    """Searches the folders of the workspace, shallow ones first. Each is opened relative to the one above it, so that
    no link is followed."""

    def __init__(self, workspace: Path) -> None:
        self.found: list[tuple[str, ...]] = []
        """The files of each folder that has any, as paths relative to the workspace, in the order of their names."""
        self.whole = True
        """Whether no limit was reached."""
        self._todo: deque[tuple[tuple[str, ...], int]] = deque()
        self._folders = 0
        self._names = 0
        self._run(workspace)

    def _run(self, workspace: Path) -> None:
        self._enqueue((), str(workspace), None)
        try:
            while self._todo:
                parts, folder = self._todo.popleft()
                try:
                    self._scan(parts, folder)
                finally:
                    os.close(folder)
        finally:
            for _, folder in self._todo:
                os.close(folder)

    def _enqueue(self, parts: tuple[str, ...], name: str, above: int | None) -> None:
        if self._folders >= MAX_FOLDERS:
            self.whole = False
            return
        self._folders += 1
        with suppress(OSError):  # deleted meanwhile, or not readable
            self._todo.append((parts, os.open(name, _LISTED, dir_fd=above)))

    def _scan(self, parts: tuple[str, ...], folder: int) -> None:
        names = set[str]()
        below = list[str]()
        with suppress(OSError), os.scandir(folder) as entries:
            for entry in islice(entries, MAX_ENTRIES - self._names):
                self._names += 1
                if entry.name in INSTRUCTION_NAMES and entry.is_file(follow_symlinks=False):
                    names.add(entry.name)
                elif _is_searched(entry.name) and entry.is_dir(follow_symlinks=False):
                    below.append(entry.name)
        self.whole &= self._names < MAX_ENTRIES
        if parts and names:
            self.found.append(tuple("/".join((*parts, name)) for name in INSTRUCTION_NAMES if name in names))
        if len(parts) < MAX_DEPTH:
            for name in sorted(below):
                self._enqueue((*parts, name), name, folder)


def _is_searched(name: str) -> bool:
    return name not in SKIPPED_FOLDERS and _PLAIN.fullmatch(name) is not None
