"""Convert stored sessions and messages to the shapes of the protocol, and `after` values to cursors."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Any

from agent_common.protocol import QueuedMessage, SessionMessage, TokenCounts

from ...errors import InvalidRequest
from ...sessions import (
    CUSTOM,
    Cursor,
    Message,
    StoredSession,
    WaitingMessage,
    branches,
    listing,
    shown_metadata,
    shown_parts,
)
from ..core.turn_state import Turn
from .session_status import compute_session_status


def session_cursor(connection: sqlite3.Connection, principal: str, after: str) -> Cursor:
    """Return the position that an `after` names: a `next` or a session's id. Raises InvalidRequest."""
    if (cursor := listing.parse_cursor(after)) is not None:
        return cursor
    row = listing.session(connection, after)
    if row is None or row.metadata["principal"] != principal:
        raise InvalidRequest("after is wrong", faults=[("after", "neither a `next` nor the id of a session")])
    return row.updated_at, row.id


def message_cursor(connection: sqlite3.Connection, session_id: str, text: str, field: str) -> Cursor:
    """Return the position that an `after` or `before` names: that of a page, or of a message by its id. `field`: which
    of them. Raises InvalidRequest."""
    if (cursor := listing.parse_cursor(text)) is not None:
        return cursor
    message_id = branches.resolve_message_id(connection, session_id, text)
    if message_id is None:
        known = "`next`" if field == "after" else "`previous`, `end`"
        raise InvalidRequest(f"{field} is wrong", faults=[(field, f"neither a {known} nor the id of a message")])
    return listing.message_cursor(connection, message_id)


def summary(row: StoredSession, name: str, turn: Turn | None) -> dict[str, Any]:
    """Return the fields common to all answers about a session. `name` is the one that the request used, `turn` the
    session's current turn."""
    return {
        "id": row.id,
        "session_id": name,
        "alias": row.alias,
        "title": row.metadata.get("title"),
        "agent": row.agent,
        "model": row.model,
        "parent_id": row.parent_id,
        "parent_message_id": row.parent_message_id,
        "ephemeral": bool(row.metadata.get("ephemeral")),
        "metadata": row.metadata.get(CUSTOM, {}),
        "created_at": row.created_at,
        "updated_at": row.updated_at,
        "archived_at": row.archived_at,
        "usage": TokenCounts(**row.usage.model_dump(exclude={"cost_usd"})),
        "total_tokens": row.usage.total,
        "status": compute_session_status(turn, row.last_outcome),
    }


def message(message: Message) -> SessionMessage:
    """Return a stored message in the shape that frontends use."""
    return SessionMessage(
        id=message.id,
        role=message.role,
        metadata=shown_metadata(message.metadata),
        parts=shown_parts(message.parts),
        created_at=message.created_at,
    )


def queue(waiting: Sequence[WaitingMessage]) -> list[QueuedMessage]:
    """Return the queued messages, the next one first."""
    return [
        QueuedMessage(
            message_id=one.client_id or one.message_id, position=position, queued_at=one.queued_at, parts=one.parts
        )
        for position, one in enumerate(waiting)
    ]
