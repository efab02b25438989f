"""Project instructions: AGENTS.md and similar files, of the data directory and of the workspace.

Folders above them are not searched, because they belong to a machine that may be shared. The operator's file in the
data directory is the outermost; no tool and no command can write it. Commands can write files in the workspace, so no
link is followed there and every size is limited. Files in subfolders are only named: the model reads them when it works
there.
"""

from __future__ import annotations

import os
import re
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from agent_common.telemetry import logger

from ..home import Home
from ..principal_paths import OPERATOR
from ..safe_path import SafePath
from .authorship import PromptFileAuthors
from .bootstrap import PROMPT_CAPS, BootstrapFile, read_prompt_file
from .watched_files import INSTRUCTION_NAMES

CAP = PROMPT_CAPS["AGENTS.md"]
MAX_DEPTH, MAX_FOLDERS, MAX_ENTRIES = 4, 32, 2_000
"""Limits of the search in subfolders: depth, folders, and entries in all folders together."""
MAX_NAMED = 20
SKIPPED_FOLDERS = frozenset({"__pycache__", "build", "dist", "learnings", "memory", "node_modules", "target", "venv"})
_LISTED = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_IMPORTS = re.compile(r"@(?:\./)?AGENTS\.md")
"""The whole content of a CLAUDE.md that only imports AGENTS.md."""
_PLAIN = re.compile(r"[\w][\w .+@-]{0,63}")
"""Folder names that are plain enough to show."""

log = logger(__name__)


@dataclass(frozen=True, slots=True)
class Instructions:
    """Instructions for work in this workspace."""

    files: Sequence[BootstrapFile] = ()
    """Outermost first, nearest last, without duplicates."""
    nested: Sequence[str] = ()
    """Paths of further files, relative to the workspace."""
    more_nested: bool = False
    """Whether there may be more of these, because not all folders were searched."""


def read_instructions(home: Home, principal: str = OPERATOR, authors: PromptFileAuthors | None = None) -> Instructions:
    """Find and read the instructions, as a user's session is shown them. Reads a few files and some thousand names at
    most, in about a millisecond."""
    files: list[BootstrapFile] = []
    for level, source in ((home.data_dir, "operator"), (home.workspace, "workspace")):
        files += _read_folder(level, source, principal, authors if source == "workspace" else None)
    walk = _Walk()
    walk.run(home.workspace)
    more = not walk.whole or len(walk.found) > MAX_NAMED
    return Instructions(_unique_files(files), walk.found[:MAX_NAMED], more)


def _read_folder(
    folder: Path, source: str, principal: str, authors: PromptFileAuthors | None
) -> Iterator[BootstrapFile]:
    for name in INSTRUCTION_NAMES:
        safe_path = SafePath(folder, folder / name, name)
        if source == "operator" and safe_path.path.is_symlink():
            log.warning("instructions are not read: a link is not followed", path=str(safe_path.path))
        file = read_prompt_file(safe_path, name, CAP, source)
        if file is not None and not _IMPORTS.fullmatch(file.text.strip()):
            yield file.with_author(authors, safe_path.path, principal)


def _unique_files(files: Sequence[BootstrapFile]) -> tuple[BootstrapFile, ...]:
    """Return the files without duplicates. The first of equal ones stays: the operator's, and AGENTS.md."""
    seen: set[str] = set()
    kept: list[BootstrapFile] = []
    for file in files:
        text = file.text.strip()
        if text not in seen:
            seen.add(text)
            kept.append(file)
    return tuple(kept)


class _Walk:
    """Searches the folders of the workspace, shallow ones first. Each is opened relative to the one above it, so that
    no link is followed."""

    def __init__(self) -> None:
        self.found: list[str] = []
        self.whole = True
        """Whether no limit was reached."""
        self._todo: deque[tuple[tuple[str, ...], int]] = deque()
        self._folders, self._names = 0, 0

    def run(self, workspace: Path) -> None:
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
        names, below = set[str](), list[str]()
        with suppress(OSError), os.scandir(folder) as entries:
            for entry in islice(entries, MAX_ENTRIES - self._names):
                self._names += 1
                if entry.name in INSTRUCTION_NAMES and entry.is_file(follow_symlinks=False):
                    names.add(entry.name)
                elif _is_searched(entry.name) and entry.is_dir(follow_symlinks=False):
                    below.append(entry.name)
        self.whole &= self._names < MAX_ENTRIES
        first = next((name for name in INSTRUCTION_NAMES if name in names), None)
        if parts and first is not None:
            self.found.append("/".join((*parts, first)))
        if len(parts) < MAX_DEPTH:
            for name in sorted(below):
                self._enqueue((*parts, name), name, folder)


def _is_searched(name: str) -> bool:
    return name not in SKIPPED_FOLDERS and _PLAIN.fullmatch(name) is not None
