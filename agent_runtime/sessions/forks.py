"""Fork a session: copy what it shows into a new one (docs/reference/sessions.md#going-back-branching-off)."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from agent_common.protocol import TITLE_CHARACTERS, Usage

from .branches import merge_custom, require_shown
from .copies import OutOfTime
from .markers import COMPACTION, Marker
from .store import rows
from .store.ids import Kind
from .store.listing import CUSTOM, Cursor, unknown_session

COPY = " (copy)"
_INHERITED = ("principal", "system_prompt_digest", "tools", "packages", "briefs", "schema_version", rows.OUTSIDE_TEXT)
"""Metadata keys that a fork copies from its parent; all other keys of the product stay with the parent."""
_PREFIX = """
SELECT m.id, length(CAST(m.metadata_json AS BLOB)) + (
  SELECT coalesce(sum(length(CAST(p.data_json AS BLOB))), 0) FROM chat_parts p WHERE p.message_id = m.id
) AS size
FROM chat_messages m WHERE m.session_id = ? AND (m.created_at, m.id) <= (?, ?)
  AND json_extract(m.metadata_json, '$.hidden_at') IS NULL AND json_extract(m.metadata_json, '$.queued_at') IS NULL
ORDER BY m.created_at, m.id
"""
_MARKERS = f"SELECT id, data_json FROM chat_parts WHERE message_id = ? AND type = '{COMPACTION}'"  # noqa: S608


@dataclass(frozen=True, slots=True)
class Branch:
    """The parameters of a fork."""

    parent_id: str
    message_id: str | None
    """The last message to copy, by our id or the client's; None: copy all."""
    title: str | None
    custom: Mapping[str, Any]
    ephemeral: bool


@dataclass(frozen=True, slots=True)
class Fork:
    """A SessionCopy of the messages that a session shows. The caller must keep that session idle until it is stored."""

    branch: Branch
    session_id: str
    messages: tuple[tuple[str, str], ...]
    """Pairs of a message's id and that of its copy, in their order."""
    copies: Mapping[str, str]
    """The same by the message's id."""
    size: int
    """Bytes that are copied."""
    new_id: Callable[[Kind], str]
    now: int

    def begin(self, connection: sqlite3.Connection) -> None:
        """Raises NotFound for a session that is not stored yet, InvalidRequest for too much metadata."""
        last_id = self.messages[-1][0] if self.messages else None
        _insert_child(connection, self.branch, self.session_id, last_id, self.size, self.now)

    def step(self, connection: sqlite3.Connection, position: int, out_of_time: OutOfTime) -> int | None:
        total = Usage()
        for message_id, copy_id in self.messages[position:]:
            total = total.plus(self._copy_message(connection, message_id, copy_id))
            position += 1
            if out_of_time():
                break
        rows.add_usage(connection, self.session_id, total, self.now)
        return position if position < len(self.messages) else None

    def _copy_message(self, connection: sqlite3.Connection, message_id: str, copy_id: str) -> Usage:
        """Copy a message, with its parts under new ids and their JSON unchanged. Returns its usage."""
        row = connection.execute("SELECT * FROM chat_messages WHERE id = ?", (message_id,)).fetchone()
        connection.execute(
            "INSERT INTO chat_messages VALUES (?, ?, ?, ?, ?, ?)",
            (copy_id, self.session_id, row["role"], row["metadata_json"], row["created_at"], row["updated_at"]),
        )
        found = connection.execute('SELECT * FROM chat_parts WHERE message_id = ? ORDER BY "index"', (message_id,))
        connection.executemany(
            "INSERT INTO chat_parts VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            [(self.new_id("prt"), copy_id, self.session_id, *tuple(part)[3:]) for part in found],
        )
        self._move_marker(connection, copy_id)
        if row["role"] != "assistant":
            return Usage()
        return Usage.model_validate(rows.load(row["metadata_json"]).get("usage", {}))

    def _move_marker(self, connection: sqlite3.Connection, copy_id: str) -> None:
        """Let a copied compaction marker refer to the copies of its messages."""
        for row in connection.execute(_MARKERS, (copy_id,)).fetchall():
            if (marker := Marker.from_part(rows.load(row["data_json"]))) is not None:
                part = rows.dump(marker.with_ids(self.copies).to_part())
                connection.execute("UPDATE chat_parts SET data_json = ? WHERE id = ?", (part, row["id"]))


def plan_fork(connection: sqlite3.Connection, branch: Branch, new_id: Callable[[Kind], str], now: int) -> Fork:
    """Read what a fork copies. Raises NotFound `unknown_message` for a message that is not shown."""
    last = require_shown(connection, branch.parent_id, branch.message_id) if branch.message_id else None
    end: Cursor = (last.created_at, last.id) if last else (2**62, "")
    source = connection.execute(_PREFIX, (branch.parent_id, *end)).fetchall()
    session_id = new_id("ses")
    messages = tuple((row["id"], new_id("msg")) for row in source)
    size = sum(row["size"] for row in source)
    return Fork(branch, session_id, messages, dict(messages), size, new_id, now)


def _insert_child(
    connection: sqlite3.Connection, branch: Branch, child: str, last_id: str | None, size: int, now: int
) -> None:
    parent = connection.execute("SELECT * FROM chat_sessions WHERE id = ?", (branch.parent_id,)).fetchone()
    if parent is None:
        raise unknown_session(branch.parent_id)
    known: dict[str, Any] = rows.load(parent["metadata_json"])
    metadata = {key: known[key] for key in _INHERITED if key in known} | {rows.COPIED_BYTES: size}
    if title := branch.title or _copied(known.get("title")):
        metadata["title"] = title
    if custom := merge_custom(known.get(CUSTOM, {}), branch.custom):
        metadata[CUSTOM] = custom
    if branch.ephemeral:
        metadata["ephemeral"] = True
    connection.execute(
        "INSERT INTO chat_sessions (id, agent, workspace_root, model_json, parent_id, parent_message_id, metadata_json,"
        " created_at, updated_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            *(child, parent["agent"], parent["workspace_root"], parent["model_json"], parent["id"], last_id),
            *(rows.dump(metadata), now, now),
        ),
    )


def _copied(title: str | None) -> str | None:
    return title[: TITLE_CHARACTERS - len(COPY)] + COPY if title else None
