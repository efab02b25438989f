"""Project instructions: AGENTS.md and its kin, from the data directory down to the workspace.

The walk ends at the data directory: what lies above it belongs to a machine that others may share. The operator's file
in there is the outermost; no tool and no command can write it. What lies in the workspace can be written by commands,
so no link is followed there, and every size is bounded. Files in its sub-folders are only named: the model reads them
when it works there.
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
from ..safe_path import SafePath
from .bootstrap import PROMPT_CAPS, BootstrapFile, read_prompt_file

INSTRUCTION_NAMES = ("AGENTS.md", "CLAUDE.md", "CONTEXT.md")
"""In the order in which they stand where one folder has several."""
CAP = PROMPT_CAPS["AGENTS.md"]
MAX_DEPTH, MAX_FOLDERS, MAX_ENTRIES = 4, 32, 2_000
"""Of the look into sub-folders: how deep, how many, and names in all of them together."""
MAX_NAMED = 20
SKIPPED_FOLDERS = frozenset({"__pycache__", "build", "dist", "learnings", "memory", "node_modules", "target", "venv"})
_LISTED = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_IMPORTS = re.compile(r"@(?:\./)?AGENTS\.md")
"""All that stands in a CLAUDE.md which only points there."""
_PLAIN = re.compile(r"[\w][\w .+@-]{0,63}")
"""A folder whose name cannot be taken for anything else."""

log = logger(__name__)


@dataclass(frozen=True, slots=True)
class Instructions:
    """What is to be known of the work here."""

    files: Sequence[BootstrapFile] = ()
    """Outermost first, nearest last; none says the same as another."""
    nested: Sequence[str] = ()
    """Paths of further ones, relative to the workspace."""
    more_nested: bool = False
    """There may be more of these: not all folders were looked into."""


def read_instructions(home: Home) -> Instructions:
    """Reads files, some hundred names at most: a millisecond."""
    files: list[BootstrapFile] = []
    for level in _levels(home):
        source = "workspace" if level == home.workspace else "operator"
        files += _read_folder(level, source)
    walk = _Walk()
    walk.run(home.workspace)
    more = not walk.whole or len(walk.found) > MAX_NAMED
    return Instructions(_unique_files(files), walk.found[:MAX_NAMED], more)


def _levels(home: Home) -> Iterator[Path]:
    """From the boundary down to the workspace."""
    here = home.data_dir
    yield here
    for part in home.workspace.relative_to(home.data_dir).parts:
        here /= part
        yield here


def _read_folder(folder: Path, source: str) -> Iterator[BootstrapFile]:
    for name in INSTRUCTION_NAMES:
        place = SafePath(folder, folder / name, name)
        if source == "operator" and place.path.is_symlink():
            log.warning("instructions are not read: a link is not followed", path=str(place.path))
        file = read_prompt_file(place, name, CAP, source)
        if file is not None and not _IMPORTS.fullmatch(file.text.strip()):
            yield file


def _unique_files(files: Sequence[BootstrapFile]) -> tuple[BootstrapFile, ...]:
    """Of files that say the same the first one stays: the operator's, which commands cannot change, and AGENTS.md."""
    said: set[str] = set()
    kept: list[BootstrapFile] = []
    for file in files:
        text = file.text.strip()
        if text not in said:
            said.add(text)
            kept.append(file)
    return tuple(kept)


class _Walk:
    """Through the folders of the workspace, the shallow ones first. Each is opened from the one above it, never by its
    full name: a link is no folder."""

    def __init__(self) -> None:
        self.found: list[str] = []
        self.whole = True
        """No bound was met."""
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
        with suppress(OSError):  # it has gone, or is nobody's to read
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
