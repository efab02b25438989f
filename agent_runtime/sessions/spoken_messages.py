"""Read the messages of all sessions in the order of their insertion, for the search index of memory."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from . import markers, retention
from .record.parts import RETRY, text_of
from .store.listing import Cursor, read_transaction
from .store.rows import dump, load


@dataclass(frozen=True, slots=True)
class SpokenMessage:
    """A message that will not change any more."""

    row: int
    """Row number, which orders all messages."""
    message_id: str
    session_id: str
    principal: str
    role: str
    text: str
    """The user's text or the answer. Empty if there is none, or if it must not be found: in subagents' sessions and in
    ephemeral ones."""
    created_at: int
    """Epoch milliseconds."""


@dataclass(slots=True)
class SpokenBatch:
    """A batch of messages from all sessions."""

    messages: list[SpokenMessage] = field(default_factory=list[SpokenMessage])
    unfinished: list[int] = field(default_factory=list[int])
    """Rows whose turn has not ended, to be read again later."""
    last: int = 0
    """The last row that was read, or the `after` of the query if there was none."""
    more: bool = False
    """Whether there may be more rows after `last`."""


def read_batch(connection: sqlite3.Connection, after: int, limit: int, retry_rows: Sequence[int] = ()) -> SpokenBatch:
    """Return the next messages after a row, and those of `retry_rows` that still exist."""
    batch = SpokenBatch(last=after)
    with read_transaction(connection):
        running = {one for row in connection.execute(_UNFINISHED) for one in row}
        later = connection.execute(_BEHIND, (after, limit)).fetchall()
        batch.more = len(later) == limit
        for row in (*connection.execute(_AGAIN, (dump(list(retry_rows)),)), *later):
            batch.last = max(batch.last, row["row"])
            if row["id"] in running or row["queued_at"] is not None:
                batch.unfinished.append(row["row"])
            else:
                batch.messages.append(_spoken_message(connection, row))
    return batch


def readable_messages(connection: sqlite3.Connection, message_ids: Iterable[str]) -> dict[str, tuple[str, str]]:
    """Return session and role of those messages that may be read: not hidden, and not in an archived session unless it
    has a successor."""
    found = connection.execute(_SHOWN, (dump(list(message_ids)),))
    return {row["id"]: (row["session_id"], row["role"]) for row in found}


def is_kept(connection: sqlite3.Connection, message_id: str) -> bool:
    """Return whether a message is stored, and its session is not being deleted."""
    row = connection.execute("SELECT session_id FROM chat_messages WHERE id = ?", (message_id,)).fetchone()
    return row is not None and retention.is_kept(connection, row[0])


def view_start(connection: sqlite3.Connection, session_id: str) -> Cursor:
    """Return the position of the first message that the model still sees verbatim; earlier ones are summarized."""
    marked = markers.latest(connection, session_id)
    if marked is None:
        return 0, ""
    start = marked.marker.tail_start_id
    row = connection.execute(
        "SELECT created_at, id FROM chat_messages WHERE id = ? AND session_id = ?", (start, session_id)
    ).fetchone()
    return (row[0], row[1]) if row is not None else (marked.created_at, marked.message_id)


def _spoken_message(connection: sqlite3.Connection, row: sqlite3.Row) -> SpokenMessage:
    about: dict[str, Any] = load(row["about"])
    found = row["role"] in ("user", "assistant") and "called_by" not in about and "ephemeral" not in about
    return SpokenMessage(
        row=row["row"],
        message_id=row["id"],
        session_id=row["session_id"],
        principal=about["principal"],
        role=row["role"],
        text=_text(connection, row["id"]) if found else "",
        created_at=row["created_at"],
    )


def _text(connection: sqlite3.Connection, message_id: str) -> str:
    return text_of([load(part[0]) for part in connection.execute(_TEXTS, (message_id,))])


_UNFINISHED = "SELECT message_id, reply_id FROM turns WHERE state != 'ended'"
_COLUMNS = """
SELECT m.rowid AS row, m.id, m.session_id, m.role, m.created_at,
  json_extract(m.metadata_json, '$.queued_at') AS queued_at, s.metadata_json AS about
"""
_AGAIN = f"""{_COLUMNS}
FROM json_each(?) AS again JOIN chat_messages m ON m.rowid = again.value JOIN chat_sessions s ON s.id = m.session_id
"""
_BEHIND = f"""{_COLUMNS}
FROM chat_messages m JOIN chat_sessions s ON s.id = m.session_id WHERE m.rowid > ? ORDER BY m.rowid LIMIT ?
"""
_TEXTS = f"""
SELECT data_json FROM chat_parts WHERE message_id = ? AND type IN ('text', 'step-start', '{RETRY}') ORDER BY "index"
"""  # noqa: S608  it is a constant
_SHOWN = """
SELECT m.id, m.session_id, m.role FROM json_each(?) AS asked JOIN chat_messages m ON m.id = asked.value
JOIN chat_sessions s ON s.id = m.session_id
WHERE (s.archived_at IS NULL OR json_extract(s.metadata_json, '$.succeeded_at') IS NOT NULL)
  AND json_extract(m.metadata_json, '$.hidden_at') IS NULL
  AND NOT EXISTS (SELECT 1 FROM session_retention r WHERE r.session_id = s.id AND r.marked_at IS NOT NULL)
"""
