"""Index the Markdown files of the workspace, which are scanned when there is a search and read when they have changed.

The workspace's files are shared by all principals. `memory/` is each principal's own (`principal_paths.py`). Left out
are files that the prompt contains anyway, the lines of the daily log, and `learnings/`, with notes of all principals.

After a crash: a file counts as read once its last passage is stored, so the next process reads it again.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from sqlite3 import Connection

from agent_common.redaction import Redactor
from agent_common.telemetry import logger

from ...errors import ToolFailure
from ...store import Database
from ...workspace import PERSONAL_NAMES, Home, SafePath, decode_text, personal_folder
from ..index import index
from ..index.index import IndexedEntry
from ..index.schema import make_scope
from ..text import passages
from ..text.sanitize import clean
from .file_scan import MAX_ENTRIES, MAX_FILES, FileScan, ScannedFile, scan

log = logger(__name__)

MAX_READ_BYTES = 512 * 1024
"""Bytes of a file that are read; text after them is not found."""
MAX_PASSAGES = 20_000
"""Passages of all files of a scope."""
PASSAGES_PER_WRITE = 8
"""Passages that are stored in one transaction, for which other writes wait."""
FOLDER = "memory"
EXCLUDED = frozenset({*PERSONAL_NAMES, "AGENTS.md", "SOUL.md", "learnings"})
"""Names at the top of the workspace that are not shared by all principals."""
CUT_MARK = " cut"
"""Suffix of the signature of a file that did not fit as a whole: it is read again when there is space."""
_DAY = re.compile(rf"{FOLDER}/\d{{4}}-\d\d-\d\d\.md")
_LOGGED = re.compile(r"^(?:- \d\d:\d\d · .*|# \d{4}-\d\d-\d\d)$", re.MULTILINE)
"""The runtime's lines in a day's file. The indexed sessions have the same and more, without messages taken back."""


@dataclass(frozen=True, slots=True)
class ChangedFiles:
    """The files that have changed since they were indexed."""

    files: dict[str, ScannedFile | None]
    """File by path; None: it is gone."""
    complete: bool
    """Whether all files could be scanned."""
    seconds: float
    """Duration of the scan."""


@dataclass(frozen=True, slots=True)
class _Changes:
    """The changes that bring the index up to date with a file."""

    gone: list[tuple[int, IndexedEntry]]
    new: list[tuple[IndexedEntry, int]]
    """Passages with their line numbers."""
    moved: list[tuple[int, int]]
    """Pairs of a new line number and an entry."""

    def part(self, start: int) -> _Changes:
        """Return the deletions and additions of one unit of work."""
        end = start + PASSAGES_PER_WRITE
        return _Changes(self.gone[start:end], self.new[start:end], [])


class FileIndexer:
    """Indexes the files of one scope: a principal's own, or for None the shared ones."""

    def __init__(self, database: Database, home: Home, principal: str | None, redactor: Redactor) -> None:
        self._database = database
        self._principal = principal
        self._redactor = redactor
        self._root = home.workspace if principal is None else personal_folder(home, principal)
        self._warned = False
        """Whether the log says that there are too many files."""
        self.missing = False
        """Whether there are more files or passages than can be indexed."""

    async def scan(self) -> ChangedFiles:
        """Return the files that differ from the index. Raises StoreError."""
        known = await self._database.read(self._known_signatures)
        found = await asyncio.to_thread(self._scan_files, known)
        changed: dict[str, ScannedFile | None] = dict.fromkeys(sorted(known.keys() - found.files.keys()))
        changed |= {path: seen for path, seen in found.files.items() if known.get(path) != seen.signature}
        return ChangedFiles(changed, found.complete, found.seconds)

    async def index_changes(self, changed: ChangedFiles) -> None:
        """Index the changed files. Raises StoreError."""
        if changed.files:
            scope = await self._database.write(lambda connection: make_scope(connection, "file", self._principal).id)
            for path, seen in changed.files.items():
                await self._index_file(scope, path, seen)
        cut = await self._database.read(self._is_cut)
        self._set_missing(missing=cut or not changed.complete)

    def _scan_files(self, known: Iterable[str]) -> FileScan:
        if self._principal is None:
            return scan(self._root, excluded=EXCLUDED, known=known)
        return scan(self._root, FOLDER, known=known)

    def _known_signatures(self, connection: Connection) -> dict[str, str]:
        """Return path -> signature of the indexed files. Once there is space, that of a cut file differs, so that it is
        read again."""
        found = connection.execute(_KNOWN, (self._principal,)).fetchall()
        full = any(row["entries"] >= MAX_PASSAGES for row in found)
        return {row["path"]: row["signature"].removesuffix(CUT_MARK) if full else row["signature"] for row in found}

    def _is_cut(self, connection: Connection) -> bool:
        return connection.execute(_CUT, (self._principal, f"%{CUT_MARK}")).fetchone() is not None

    def _set_missing(self, *, missing: bool) -> None:
        self.missing = missing
        if missing and not self._warned:
            self._warned = True
            log.warning(
                "too many Markdown files: some are not found by searches",
                folder=str(self._root),
                most_files=MAX_FILES,
                most_names=MAX_ENTRIES,
                most_passages=MAX_PASSAGES,
            )

    async def _index_file(self, scope: int, path: str, seen: ScannedFile | None) -> None:
        """Index a changed file; `seen` None: it is gone."""
        stored = await self._database.read(lambda connection: index.entries_of_source(connection, scope, path))
        before = [(row["id"], row["text"], row["line"]) for row in stored]
        changes = await asyncio.to_thread(self._compare, path, before, gone=seen is None)
        at = seen.at if seen is not None else 0
        cut = False
        for start in range(0, max(len(changes.gone), len(changes.new)), PASSAGES_PER_WRITE):
            part = changes.part(start)
            full = await self._database.write(
                lambda connection, part=part: _store_part(connection, scope, path, at, part)
            )
            cut = cut or full

        def record_file(connection: Connection) -> None:
            connection.executemany("UPDATE memory_entries SET line = ? WHERE id = ?", changes.moved)
            connection.execute("DELETE FROM memory_files WHERE scope = ? AND path = ?", (scope, path))
            if seen is not None:
                signature = seen.signature + CUT_MARK if cut else seen.signature
                connection.execute("INSERT INTO memory_files VALUES (?, ?, ?)", (scope, path, signature))

        await self._database.write(record_file)

    def _compare(self, path: str, before: Sequence[tuple[int, str, int]], *, gone: bool) -> _Changes:
        now = [] if gone else _passages(self._root, path, self._redactor)
        wanted = Counter(text for text, _ in now)
        lines = dict(reversed(now))
        changes = _Changes([], [], [])
        for entry, text, line in before:
            if wanted[text] > 0:
                wanted[text] = 0  # a repeated text is indexed once
                if lines[text] != line:
                    changes.moved.append((lines[text], entry))
            else:
                changes.gone.append((entry, IndexedEntry.from_text(text)))
        changes.new.extend((IndexedEntry.from_text(text), lines[text]) for text, times in wanted.items() if times > 0)
        return changes


def _passages(root: Path, path: str, redactor: Redactor) -> list[tuple[str, int]]:
    """Return the texts of a file's passages with their line numbers; none if it cannot be read or is not text."""
    try:
        with SafePath(root, root / path, path).open() as file:
            data = file.read(MAX_READ_BYTES)
    except ToolFailure:
        return []
    text = decode_text(data)
    if text is None:
        return []
    found = passages.split_markdown(_LOGGED.sub("", text) if _DAY.fullmatch(path) else text)
    return [(text, passage.line) for passage in found if (text := clean(passage.text, redactor))]


def _store_part(connection: Connection, scope: int, path: str, at: int, changes: _Changes) -> bool:
    """Store the changes. Return whether some passages did not fit."""
    for entry, what in changes.gone:
        index.delete_entry(connection, scope, entry, what)
    left = MAX_PASSAGES - connection.execute("SELECT entries FROM memory_scopes WHERE id = ?", (scope,)).fetchone()[0]
    for what, line in changes.new[: max(0, left)]:
        index.add_entry(connection, scope, what, at, path, line)
    return len(changes.new) > left


_KNOWN = """
SELECT path, signature, entries FROM memory_files f JOIN memory_scopes s ON s.id = f.scope
WHERE s.kind = 'file' AND s.principal IS ?
"""
_CUT = f"{_KNOWN} AND signature LIKE ? LIMIT 1"
