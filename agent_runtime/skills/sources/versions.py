"""Keep every version of a plugin: its code, when and by whom it was made, and what it changed.

The database is authoritative, since no command can rewrite it; the workspace gets copies for the agent to read.
"""

from __future__ import annotations

import asyncio
import base64
import json
import re
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from agent_common.telemetry import logger

from ...errors import ToolFailure
from ...ports import Clock
from ...store import Database, Migration
from ...workspace import SKILL_HISTORY, SafePath
from .source import PluginSource

MAX_COMPARED_BYTES = 256 * 1024
"""Bytes of a file above which the diff only states the sizes."""
MAX_LINES = 2000
"""Changed lines of a version that are compared: the cost can grow with their square, and an attacker can choose
them."""
CONTEXT_LINES = 3
MAX_DIFF_LENGTH = 64 * 1024
"""Characters of a diff that are kept."""
COPIES_FOLDER = Path(*SKILL_HISTORY)
"""The folder of the copies in the workspace."""

_RANGE = re.compile(r"([-+])(\d+)")

Action = Literal["saved", "created", "restored", "removed"]

NO_FILES: Mapping[str, bytes] = {}

log = logger(__name__)


@dataclass(frozen=True, slots=True)
class VersionAuthor:
    """Who changed a plugin through a tool."""

    principal: str
    agent: str
    session_id: str
    call_id: str


@dataclass(frozen=True, slots=True)
class PluginVersion:
    """One entry of a plugin's history."""

    file: str
    number: int
    action: Action
    """`saved` in the folder, `created` or `restored` by the agent, or `removed`."""
    digest: str | None
    """Digest of the files; None for a removal."""
    diff: str
    """Changes against the version before, as `diff -u` writes them."""
    created_at: int
    """Epoch milliseconds."""
    author: VersionAuthor | None = None
    """None: a person saved or removed it in the folder."""
    files: Mapping[str, bytes] | None = None

    def source(self) -> PluginSource | None:
        return PluginSource(self.file, self.files) if self.files is not None else None


class PluginVersions:
    """The history of all plugins."""

    def __init__(self, database: Database, clock: Clock, workspace: Path) -> None:
        self._database = database
        self._clock = clock
        self._workspace = workspace

    async def history(self, file: str) -> list[PluginVersion]:
        """Return the versions of a plugin with their files, oldest first."""
        return await self._database.read(lambda connection: _select(connection, file))

    async def latest(self, file: str) -> PluginVersion | None:
        found = await self._database.read(lambda connection: _select(connection, file, latest=True))
        return found[0] if found else None

    async def save(self, action: Action, source: PluginSource, author: VersionAuthor | None = None) -> PluginVersion:
        """Store the code of a plugin as a new version, unless it is that of the latest version. Raises StoreError."""
        before = await self.latest(source.file)
        if before is not None and before.digest == source.digest:
            return before
        return await self._add_version(source.file, action, before, source, author)

    async def save_removal(self, file: str, author: VersionAuthor | None = None) -> PluginVersion | None:
        """Store that a plugin was removed; return None if there was none. Raises StoreError."""
        before = await self.latest(file)
        if before is None or before.digest is None:
            return None
        return await self._add_version(file, "removed", before, None, author)

    async def _add_version(
        self,
        file: str,
        action: Action,
        before: PluginVersion | None,
        source: PluginSource | None,
        author: VersionAuthor | None,
    ) -> PluginVersion:
        old = before.files if before is not None else None
        new = source.files if source is not None else None
        entry = PluginVersion(
            file=file,
            number=before.number + 1 if before else 1,
            action=action,
            digest=source.digest if source else None,
            diff=await asyncio.to_thread(diff_files, old or NO_FILES, new or NO_FILES),
            created_at=self._clock.now_ms(),
            author=author,
            files=new,
        )
        await self._database.write(lambda connection: _insert(connection, entry), durable=True)
        facts = {"file": file, "version": entry.number, "action": action, "digest": entry.digest}
        log.info("skill changed", **facts, by=author.principal if author else "the folder")
        return entry

    async def present_files(self) -> list[str]:
        """Return the plugins whose latest version is not a removal."""
        return await self._database.read(_select_present)

    async def files_by_agents(self) -> set[str]:
        """Return the plugins whose latest version an agent has made."""
        return await self._database.read(_select_by_agents)

    def disable(self, file: str, digest: str, reason: str) -> None:
        """Store that a plugin is disabled as long as its code has this digest. Does not wait for the write."""
        written = self._database.write(lambda connection: _insert_disabled(connection, file, digest, reason))
        written.add_done_callback(_log_failure)

    async def get_disabled(self, file: str) -> tuple[str, str] | None:
        """Return the digest and the reason of a disabled plugin; None if it is not disabled."""
        return await self._database.read(lambda connection: _select_disabled(connection, file))

    async def enable(self, file: str) -> None:
        """Store that a plugin may be called again. Raises StoreError."""
        if await self.get_disabled(file) is not None:
            await self._database.write(lambda connection: _delete_disabled(connection, file))

    def copy_to_workspace(self, entry: PluginVersion | None) -> None:
        """Copy a version to the workspace for the agent to read. A failure is logged; nothing depends on the copy."""
        if entry is None:
            return
        folder = self._workspace / COPIES_FOLDER / Path(entry.file).stem
        name = f"{entry.number:04d}"
        try:
            for suffix, data in ((".diff", entry.diff.encode()), (".py", (entry.files or {}).get(entry.file))):
                if data is not None:
                    path = folder / f"{name}{suffix}"
                    SafePath(self._workspace, path, str(path)).write_atomically(data)
        except ToolFailure as failure:
            log.warning("a version of a skill was not copied to the workspace", file=entry.file, error=failure.message)


def diff_files(old: Mapping[str, bytes], new: Mapping[str, bytes]) -> str:
    """Return the changes as `diff -u` writes them; for files that are too large, only their sizes."""
    import difflib  # most processes never compare versions

    pieces: list[str] = []
    left = MAX_LINES
    for name in sorted({*old, *new}):
        before = old.get(name, b"")
        after = new.get(name, b"")
        if before == after:
            continue
        lines = [data.decode(errors="replace").splitlines() for data in (before, after)]
        start, stops = _changed_range(*lines)
        size = max(stops) - start
        if max(len(before), len(after)) > MAX_COMPARED_BYTES or b"\0" in before + after or size > left:
            pieces.append(f"{name}: {len(before)} bytes became {len(after)}\n")
            continue
        left -= size
        labels = [name if data else "/dev/null" for data in (before, after)]
        parts = [one[start:stop] for one, stop in zip(lines, stops, strict=True)]
        changes = difflib.unified_diff(parts[0], parts[1], labels[0], labels[1], n=CONTEXT_LINES, lineterm="")
        pieces += [f"{_shift_hunk(line, start)}\n" for line in changes]
    text = "".join(pieces)
    return text if len(text) <= MAX_DIFF_LENGTH else f"{text[:MAX_DIFF_LENGTH]}\n[cut: {len(text)} characters in all]\n"


def _changed_range(old: Sequence[str], new: Sequence[str]) -> tuple[int, tuple[int, int]]:
    """Return the range in which the two differ, with context lines: the start, and the end in each."""
    shorter = min(len(old), len(new))
    head = next((at for at in range(shorter) if old[at] != new[at]), shorter)
    tail = next((at for at in range(shorter - head) if old[-1 - at] != new[-1 - at]), shorter - head)
    tail = max(0, tail - CONTEXT_LINES)
    return max(0, head - CONTEXT_LINES), (len(old) - tail, len(new) - tail)


def _shift_hunk(line: str, start: int) -> str:
    """Return a line of a diff with the line numbers of its `@@` moved down by `start`."""
    if not line.startswith("@@"):
        return line
    return _RANGE.sub(lambda found: f"{found[1]}{int(found[2]) + start}", line)


def _insert(connection: sqlite3.Connection, entry: PluginVersion) -> None:
    author = entry.author
    connection.execute(
        "INSERT INTO skill_versions VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            *(entry.file, entry.number, entry.action, entry.digest, _pack(entry.files), entry.diff, entry.created_at),
            *((author.principal, author.agent, author.session_id, author.call_id) if author else (None,) * 4),
        ),
    )


def _select(connection: sqlite3.Connection, file: str, *, latest: bool = False) -> list[PluginVersion]:
    tail = "DESC LIMIT 1" if latest else "ASC"
    rows = connection.execute(f"SELECT * FROM skill_versions WHERE file = ? ORDER BY version {tail}", (file,))  # noqa: S608
    return [_version_of_row(row) for row in rows]


def _select_present(connection: sqlite3.Connection) -> list[str]:
    latest = "SELECT file, digest, max(version) FROM skill_versions GROUP BY file"
    return [row["file"] for row in connection.execute(latest) if row["digest"] is not None]


def _select_by_agents(connection: sqlite3.Connection) -> set[str]:
    latest = "SELECT file, principal, max(version) FROM skill_versions GROUP BY file"
    return {row["file"] for row in connection.execute(latest) if row["principal"] is not None}


def _version_of_row(row: sqlite3.Row) -> PluginVersion:
    by = [row[name] for name in ("principal", "agent", "session_id", "call_id")]
    return PluginVersion(
        file=row["file"],
        number=row["version"],
        action=row["action"],
        digest=row["digest"],
        diff=row["diff"],
        created_at=row["created_at"],
        author=VersionAuthor(*by) if by[0] is not None else None,
        files=_unpack(row["files_json"]),
    )


def _pack(files: Mapping[str, bytes] | None) -> str | None:
    """Encode files as JSON: text as it is, so that people can read it in the database, anything else as base64."""
    if files is None:
        return None
    packed: dict[str, str | list[str]] = {}
    for name, data in files.items():
        try:
            packed[name] = data.decode()
        except UnicodeDecodeError:
            packed[name] = [base64.b64encode(data).decode()]
    return json.dumps(packed)


def _unpack(text: str | None) -> dict[str, bytes] | None:
    if text is None:
        return None
    packed: dict[str, str | list[str]] = json.loads(text)  # noqa: TID251  our own row
    return {
        name: data.encode() if isinstance(data, str) else base64.b64decode(data[0]) for name, data in packed.items()
    }


def _insert_disabled(connection: sqlite3.Connection, file: str, digest: str, why: str) -> None:
    connection.execute("INSERT OR REPLACE INTO skills_aside VALUES (?, ?, ?)", (file, digest, why))


def _select_disabled(connection: sqlite3.Connection, file: str) -> tuple[str, str] | None:
    row = connection.execute("SELECT digest, why FROM skills_aside WHERE file = ?", (file,)).fetchone()
    return (row["digest"], row["why"]) if row is not None else None


def _delete_disabled(connection: sqlite3.Connection, file: str) -> None:
    connection.execute("DELETE FROM skills_aside WHERE file = ?", (file,))


def _log_failure(written: asyncio.Future[None]) -> None:
    if not written.cancelled() and (error := written.exception()) is not None:
        log.warning("a disabled skill could not be recorded, and is enabled again after a restart", error=str(error))


def _create(connection: sqlite3.Connection) -> None:
    connection.execute("CREATE TABLE skills_aside (file TEXT PRIMARY KEY, digest TEXT NOT NULL, why TEXT NOT NULL)")
    connection.execute(
        """
        CREATE TABLE skill_versions (
          file TEXT NOT NULL,
          version INTEGER NOT NULL,
          action TEXT NOT NULL CHECK (action IN ('saved', 'created', 'restored', 'removed')),
          digest TEXT,
          files_json TEXT,
          diff TEXT NOT NULL,
          created_at INTEGER NOT NULL,
          principal TEXT,
          agent TEXT,
          session_id TEXT,
          call_id TEXT,
          PRIMARY KEY (file, version)
        )
        """
    )


MIGRATIONS = (Migration(4, "versions of skills", _create),)
