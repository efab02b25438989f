"""Export sessions as lines of JSON, and import them as equal rows.

See docs/reference/sessions.md#carrying.

The lines: the session, then each message followed by its parts, then the prompt. `*_json` columns stay strings.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Iterator, Sequence
from os import SEEK_END
from typing import BinaryIO

from pydantic_core import to_json

from agent_common.redaction import Redactor

from ...errors import Conflict, InvalidRequest
from .. import retention
from ..copies import OutOfTime
from ..store.agent_prompts import IMPORTED
from ..store.listing import read_transaction, unknown_session
from ..store.rows import COPIED_BYTES, dump
from .import_format import COLUMNS, Line, SessionImport, read_lines

_PRIVATE = ("model_json", "permissions_json", "metadata_json", "data_json", "body", "tool_call_id", "workspace_root")
"""Columns that may contain a secret."""


# ---------------------------------------------------------------- export


def export(connection: sqlite3.Connection, session_id: str, out: BinaryIO, redactor: Redactor, *, whole: bool) -> None:
    """Write a stored session as it is now: as lines, or with `whole` one JSON document."""
    with read_transaction(connection):
        lines = _redacted(connection, session_id, redactor)
        pieces = _document(lines) if whole else (to_json(line) + b"\n" for line in lines)
        out.writelines(pieces)


def _lines(connection: sqlite3.Connection, session_id: str) -> Iterator[Line]:
    session = connection.execute("SELECT * FROM chat_sessions WHERE id = ?", (session_id,)).fetchone()
    yield _line("session", session)
    for message in connection.execute(
        "SELECT * FROM chat_messages WHERE session_id = ? ORDER BY created_at, id", (session_id,)
    ):
        yield _line("message", message)
        for part in connection.execute(
            'SELECT * FROM chat_parts WHERE message_id = ? ORDER BY "index"', (message["id"],)
        ):
            yield _line("part", part)
    for digest, body in _prompts(connection, session_id).items():
        yield {"type": "prompt", "data": {"digest": digest, "body": body}}


def _line(kind: str, row: sqlite3.Row) -> Line:
    return {"type": kind, "data": {key: row[key] for key in row.keys()}}  # noqa: SIM118  a Row has no iterator of keys


def _prompts(connection: sqlite3.Connection, session_id: str) -> dict[str, str]:
    """Return the prompts that the session and its messages refer to, by digest; the session's own is last."""
    own: str = connection.execute(_OWN, (session_id,)).fetchone()[0]
    found = dict(connection.execute(_REFERRED, {"session": session_id}).fetchall())
    return {digest: body for digest, body in found.items() if digest != own} | {own: found.get(own, "")}


_OWN = "SELECT json_extract(metadata_json, '$.system_prompt_digest') FROM chat_sessions WHERE id = ?"
_REFERRED = """
SELECT digest, body FROM system_prompts WHERE digest IN (
  SELECT json_extract(metadata_json, '$.system_prompt_digest') FROM chat_sessions WHERE id = :session
  UNION
  SELECT json_extract(metadata_json, '$.system_prompt_digest') FROM chat_messages WHERE session_id = :session
  UNION
  SELECT json_extract(brief.value, '$.digest') FROM chat_sessions, json_each(metadata_json, '$.briefs') AS brief
    WHERE chat_sessions.id = :session AND brief.type = 'object'
) ORDER BY digest
"""


def _redacted(connection: sqlite3.Connection, session_id: str, redactor: Redactor) -> Iterator[Line]:
    """Yield the lines without the secrets. A prompt that contained one gets the digest of its redacted text."""
    if connection.execute("SELECT 1 FROM chat_sessions WHERE id = ?", (session_id,)).fetchone() is None:
        raise unknown_session(session_id)
    digests = {
        digest: hashlib.sha256(redactor.redact(body).encode()).hexdigest()
        for digest, body in _prompts(connection, session_id).items()
    }
    new_digests = [(f'"{old}"', f'"{new}"') for old, new in digests.items() if old != new]
    for line in _lines(connection, session_id):
        data = line["data"]
        for column in _PRIVATE:
            if isinstance(data.get(column), str):
                data[column] = _replace_all(redactor.redact(data[column]), new_digests)
        if line["type"] == "prompt":
            data["digest"] = digests[data["digest"]]
        yield line


def _replace_all(text: str, changes: Sequence[tuple[str, str]]) -> str:
    for old, new in changes:
        text = text.replace(old, new)
    return text


def _document(lines: Iterator[Line]) -> Iterator[bytes]:
    """Yield `{session, messages: [{message, parts: [...]}], prompts: [...]}` in pieces."""
    yield b'{"session":' + to_json(next(lines)["data"]) + b',"messages":['
    before = b""
    first_part = True
    prompts = list[Line]()
    for line in lines:
        if line["type"] == "message":
            yield before + b'{"message":' + to_json(line["data"]) + b',"parts":['
            before = b"]},"
            first_part = True
        elif line["type"] == "part":
            yield (b"" if first_part else b",") + to_json(line["data"])
            first_part = False
        else:
            prompts.append(line["data"])
    yield (b"]}" if before else b"") + b'],"prompts":' + to_json(prompts) + b"}"


# ---------------------------------------------------------------- import


def validate_export(file: BinaryIO, now: int) -> SessionImport:
    """Read and check an export to its end. Raises InvalidRequest with the line and its fault."""
    session_import = SessionImport(now)
    for number, line in read_lines(file):
        session_import.add_line(number, line)
    session_import.finish()
    file.seek(0)
    return session_import


class ImportCopy:
    """A SessionCopy of a checked export.

    What would hold here only because the file says so is left out: the session's own rules, unless the importer keeps
    them, and a parent that is not a session of the same principal. The session is marked, and gets this agent's prompts
    in place of those that the file brought.
    """

    def __init__(
        self, file: BinaryIO, session_import: SessionImport, now: int, *, keep_permissions: bool = False
    ) -> None:
        self.session_id = session_import.session_id
        self.size = file.seek(0, SEEK_END)
        self._file = file
        self._now = now
        self._keep_permissions = keep_permissions
        self._offsets = {0: 0}
        """Number of lines -> the bytes that they have, for each number at which a step has begun."""

    def begin(self, connection: sqlite3.Connection) -> None:
        """Raises Conflict `session_exists` if the session exists here, InvalidRequest."""
        if connection.execute("SELECT 1 FROM chat_sessions WHERE id = ?", (self.session_id,)).fetchone():
            raise Conflict(f"session {self.session_id} exists already", code="session_exists")
        self._file.seek(0)
        number, line = next(read_lines(self._file))
        _insert(connection, number, _adopted(connection, line, self.size, self._keep_permissions))
        retention.note_import(connection, self.session_id, self._now)

    def step(self, connection: sqlite3.Connection, position: int, out_of_time: OutOfTime) -> int | None:
        """Raises InvalidRequest for rows that belong to another session."""
        self._file.seek(self._offsets[position])
        for number, line in read_lines(self._file, position + 1):
            if line["type"] != "session":
                _insert(connection, number, line)
            if out_of_time():
                self._offsets[number] = self._file.tell()
                return number
        return None


def _adopted(connection: sqlite3.Connection, line: Line, size: int, keep_permissions: bool) -> Line:
    """Return the session's line as it may be stored here."""
    data: Line = dict(line["data"])
    metadata = json.loads(data["metadata_json"])  # noqa: TID251  import_format has checked it
    data["metadata_json"] = dump({**metadata, IMPORTED: True, COPIED_BYTES: size})
    if not keep_permissions:
        data["permissions_json"] = "[]"
    parent = (data["parent_id"], data["parent_message_id"], metadata["principal"])
    if connection.execute(_PARENT, parent).fetchone() is None:
        data["parent_id"] = data["parent_message_id"] = None
    return {"type": "session", "data": data}


_PARENT = """
SELECT 1 FROM chat_sessions s WHERE s.id = ?1 AND json_extract(s.metadata_json, '$.principal') = ?3
  AND (?2 IS NULL OR EXISTS (SELECT 1 FROM chat_messages m WHERE m.id = ?2 AND m.session_id = s.id))
"""


def _insert(connection: sqlite3.Connection, number: int, line: Line) -> None:
    data = line["data"]
    try:
        connection.execute(_INSERT[line["type"]], [data[name] for name in COLUMNS[line["type"]]])
    except sqlite3.IntegrityError as error:
        fault = f"it exists already, in another session ({error})"
        raise InvalidRequest("the export cannot be stored", faults=[(f"line {number}", fault)]) from error


_INSERT = {
    "session": "INSERT INTO chat_sessions (id, agent, workspace_root, model_json, parent_id, parent_message_id,"
    " permissions_json, metadata_json, prompt_tokens, completion_tokens, reasoning_tokens, cache_read, cache_write,"
    " total_tokens, cost_usd, created_at, updated_at, archived_at)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
    "message": "INSERT INTO chat_messages (id, session_id, role, metadata_json, created_at, updated_at)"
    " VALUES (?, ?, ?, ?, ?, ?)",
    "part": 'INSERT INTO chat_parts (id, message_id, session_id, "index", type, data_json, tool_call_id, tool_state,'
    " created_at, updated_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
    "prompt": "INSERT OR IGNORE INTO system_prompts (digest, body) VALUES (?, ?)",
}
"""Columns in the order of `COLUMNS`."""
