"""Rewind: rows are hidden, never deleted or rewritten.

See docs/reference/sessions.md#going-back-branching-off.

Each function is a unit of work or a part of one. The caller must keep the session idle.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agent_common.protocol import METADATA_BYTES

from ..errors import Conflict, InvalidRequest, NotFound
from .store import history, rows
from .store.history import Message, TurnRow
from .store.listing import CUSTOM, unknown_session

_HIDE = """
UPDATE chat_messages SET metadata_json = json_set(metadata_json, '$.hidden_at', :at), updated_at = :now
WHERE session_id = :session AND (created_at, id) >= (:created, :id)
  AND json_extract(metadata_json, '$.hidden_at') IS NULL AND json_extract(metadata_json, '$.queued_at') IS NULL
"""
_REWOUND = """
SELECT id, created_at, json_extract(metadata_json, '$.hidden_at') AS hidden_at FROM chat_messages
WHERE session_id = ? AND json_extract(metadata_json, '$.hidden_at') IS NOT NULL
  AND json_extract(metadata_json, '$.queue_canceled_at') IS NULL
ORDER BY hidden_at DESC, created_at, id
"""
"""Messages hidden by rewinds, the latest rewind first. Messages cancelled in the queue are never shown again."""
_SHOW_AGAIN = """
UPDATE chat_messages SET metadata_json = json_remove(metadata_json, '$.hidden_at'), updated_at = ? WHERE id = ?
"""
_SHOWN_AFTER = """
SELECT 1 FROM chat_messages WHERE session_id = ? AND (created_at, id) > (?, ?)
  AND json_extract(metadata_json, '$.hidden_at') IS NULL AND json_extract(metadata_json, '$.queued_at') IS NULL
LIMIT 1
"""
_FOLLOWED = """
SELECT 1 FROM chat_messages this JOIN chat_messages later
  ON later.session_id = this.session_id AND (later.created_at, later.id) > (this.created_at, this.id)
WHERE this.id = ?
  AND json_extract(this.metadata_json, '$.hidden_at') IS NULL
  AND json_extract(this.metadata_json, '$.steered_at') IS NULL
  AND later.role = 'user'
  AND json_extract(later.metadata_json, '$.hidden_at') IS NULL
  AND json_extract(later.metadata_json, '$.queued_at') IS NULL
  AND json_extract(later.metadata_json, '$.steered_at') IS NULL
  AND json_extract(later.metadata_json, '$.trigger') IS NULL
LIMIT 1
"""
_SENT_AFTER = """
SELECT id FROM chat_messages WHERE session_id = ? AND role = 'user'
  AND json_extract(metadata_json, '$.hidden_at') IS NULL AND json_extract(metadata_json, '$.queued_at') IS NULL
  AND json_extract(metadata_json, '$.steered_at') IS NULL
  AND coalesce(json_extract(metadata_json, '$.queue_enqueued_at'), created_at) > ?
ORDER BY created_at, id LIMIT 1
"""


@dataclass(frozen=True, slots=True)
class RewindResult:
    """The result of a rewind."""

    message: Message
    """The user message, as it was shown."""
    hidden: int
    """Number of hidden messages."""


def resolve_message_id(connection: sqlite3.Connection, session_id: str, name: str) -> str | None:
    """Return our id of a message named by the client's id or by ours; None if there is none. The client's id takes
    precedence: a frontend that has read messages from us reuses our ids for those that replace them."""
    row = connection.execute(
        "SELECT coalesce((SELECT message_id FROM turns WHERE session_id = :session AND client_id = :name),"
        " (SELECT id FROM chat_messages WHERE id = :name AND session_id = :session))",
        {"name": name, "session": session_id},
    ).fetchone()
    return row[0]


def find_turn(connection: sqlite3.Connection, session_id: str, name: str) -> TurnRow | None:
    """Return the ledger's row of the message with that name, the client's id or ours; None if there is none."""
    message_id = resolve_message_id(connection, session_id, name)
    return history.turn(connection, message_id) if message_id is not None else None


def is_hidden(connection: sqlite3.Connection, message_id: str) -> bool:
    """Return whether a message is hidden, by a rewind or because it was cancelled in the queue."""
    row = connection.execute(
        "SELECT json_extract(metadata_json, '$.hidden_at') FROM chat_messages WHERE id = ?", (message_id,)
    ).fetchone()
    return row is not None and row[0] is not None


def is_shown(connection: sqlite3.Connection, message_id: str) -> bool:
    """Return whether a message belongs to the conversation: neither hidden nor queued."""
    message = history.message(connection, message_id)
    return message is not None and message.shown


def is_followed(connection: sqlite3.Connection, message_id: str) -> bool:
    """Return whether the conversation went on after the turn of a message with one of another message of a person.
    False for a message that steered: its turn is another's."""
    return connection.execute(_FOLLOWED, (message_id,)).fetchone() is not None


def is_rewound(connection: sqlite3.Connection, message_id: str) -> bool:
    """Return whether a rewind has hidden the message; False for one cancelled in the queue."""
    row = connection.execute(
        "SELECT json_extract(metadata_json, '$.queue_canceled_at') FROM chat_messages WHERE id = ?", (message_id,)
    ).fetchone()
    return is_hidden(connection, message_id) and row[0] is None


def sent_at(connection: sqlite3.Connection, session_id: str, name: str) -> int | None:
    """Return when the message of that name arrived; None if there is none, or a rewind has hidden it."""
    message_id = resolve_message_id(connection, session_id, name)
    message = history.message(connection, message_id) if message_id is not None else None
    return None if message is None or is_rewound(connection, message.id) else message.sent_at


def first_sent_after(connection: sqlite3.Connection, session_id: str, at: int) -> str | None:
    """Return the first message of the conversation, in its order, that a person sent later and that did not steer."""
    row = connection.execute(_SENT_AFTER, (session_id, at)).fetchone()
    return row[0] if row is not None else None


def free_rewound_id(connection: sqlite3.Connection, session_id: str, name: str, *, or_cancelled: bool = False) -> None:
    """Free the client's id of a message that a rewind has hidden, so that it may be sent again.

    `or_cancelled`: also of one that was cancelled in the queue.
    """
    row = connection.execute(
        "SELECT message_id FROM turns WHERE session_id = ? AND client_id = ?", (session_id, name)
    ).fetchone()
    if row is not None and (is_hidden if or_cancelled else is_rewound)(connection, row[0]):
        connection.execute("UPDATE turns SET client_id = NULL WHERE message_id = ?", (row[0],))


def rewind(
    connection: sqlite3.Connection, session_id: str, message_id: str, now: int, *, free_id: bool = False
) -> RewindResult:
    """Hide a user message and all later ones; `unrewind` shows them again.

    `free_id` also frees the client's id of that message, so that it may be sent again. Raises NotFound
    `unknown_message` for a message that is not shown, and InvalidRequest for one that is not a user's.
    """
    message = require_shown(connection, session_id, message_id)
    if message.role != "user":
        raise InvalidRequest("only a user message can be rewound to", faults=[("message_id", "not a user message")])
    if message.steered:
        fault = ("message_id", "it is part of the reply that it joined: rewind to the message which that answers")
        raise InvalidRequest("a message that steered cannot be rewound to", faults=[fault])
    position = {"session": session_id, "created": message.created_at, "id": message.id}
    at = _next_hiding(connection, session_id, now)
    found = connection.execute(_HIDE, {**position, "at": at, "now": now})
    if free_id:
        connection.execute("UPDATE turns SET client_id = NULL WHERE message_id = ?", (message.id,))
    _touch(connection, session_id, now)
    return RewindResult(message, found.rowcount)


def unrewind(connection: sqlite3.Connection, session_id: str, now: int) -> int:
    """Undo the latest rewind and return the number of messages that are shown again.

    Raises Conflict `nothing_to_unrewind` if there is none, or if there are newer messages.
    """
    rewound = connection.execute(_REWOUND, (session_id,)).fetchall()
    if not rewound:
        raise Conflict("nothing was rewound in this session", code="nothing_to_unrewind")
    latest = [row for row in rewound if row["hidden_at"] == rewound[0]["hidden_at"]]
    first = latest[0]
    if connection.execute(_SHOWN_AFTER, (session_id, first["created_at"], first["id"])).fetchone() is not None:
        raise Conflict("something was said since the rewind", code="nothing_to_unrewind")
    connection.executemany(_SHOW_AGAIN, [(now, row["id"]) for row in latest])
    _touch(connection, session_id, now)
    return len(latest)


def _next_hiding(connection: sqlite3.Connection, session_id: str, now: int) -> int:
    """Return a time for `hidden_at` that is later than all others of the session, even if the clock has gone back."""
    last = connection.execute(
        "SELECT max(json_extract(metadata_json, '$.hidden_at')) FROM chat_messages WHERE session_id = ?", (session_id,)
    ).fetchone()
    return max(now, (last[0] or 0) + 1)


# ---------------------------------------------------------------- what is known of a session


def update_metadata(
    connection: sqlite3.Connection, session_id: str, changes: Mapping[str, Any], custom: Mapping[str, Any], now: int
) -> None:
    """Set keys of the product's own (null takes one away) and merges the caller's. Raises InvalidRequest."""
    row = connection.execute("SELECT metadata_json FROM chat_sessions WHERE id = ?", (session_id,)).fetchone()
    if row is None:
        raise unknown_session(session_id)
    metadata: dict[str, Any] = {**rows.load(row[0]), **changes}
    metadata[CUSTOM] = merge_custom(metadata.get(CUSTOM, {}), custom)
    kept = {key: value for key, value in metadata.items() if value not in (None, {})}
    connection.execute(
        "UPDATE chat_sessions SET metadata_json = ?, updated_at = ? WHERE id = ?", (rows.dump(kept), now, session_id)
    )


def merge_custom(known: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the caller's keys after a change; null deletes one. Raises InvalidRequest if they have grown too large."""
    both = {key: value for key, value in {**known, **changes}.items() if value is not None}
    size = len(rows.dump(both).encode())
    if size > METADATA_BYTES:
        fault = f"at most {METADATA_BYTES} bytes of JSON together with what is there, not {size}"
        raise InvalidRequest("the metadata is too large", faults=[("metadata", fault)])
    return both


def unarchive(connection: sqlite3.Connection, session_id: str, now: int) -> None:
    """Take an archived session back. Its aliases may belong to others by now and stay where they are."""
    connection.execute("UPDATE chat_sessions SET archived_at = NULL, updated_at = ? WHERE id = ?", (now, session_id))


def require_shown(connection: sqlite3.Connection, session_id: str, name: str) -> Message:
    """Return a message by the client's id or by ours. Raises NotFound `unknown_message`."""
    message_id = resolve_message_id(connection, session_id, name)
    message = history.message(connection, message_id) if message_id else None
    if message is None or not message.shown:
        raise NotFound(f"the session shows no message {name}", code="unknown_message")
    return message


def _touch(connection: sqlite3.Connection, session_id: str, now: int) -> None:
    connection.execute("UPDATE chat_sessions SET updated_at = ? WHERE id = ?", (now, session_id))
