"""Pages of sessions and of messages, by cursor (docs/reference/sessions.md)."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Collection, Generator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import Any

from agent_common.page_size import PageSize
from agent_common.protocol import Usage

from ...errors import BrokenRecord, NotFound
from .fallbacks import apportioned, read_fallbacks
from .history import Message
from .rows import dump, load

MAX_PAGE_BYTES = 8 * 1024 * 1024
"""Stored bytes of one page; a single row may have more. Pages of many values end earlier."""
CUSTOM = "custom"
"""The key of metadata_json for the caller's own keys, which keeps them apart from the product's."""
_CURSOR = re.compile(r"(\d{1,18})\.((?:ses|msg)_\w{26})", re.ASCII)
_SESSION = """
SELECT s.*,
  (SELECT min(a.alias) FROM session_aliases a WHERE a.session_id = s.id) AS alias,
  (SELECT t.outcome_json FROM turns t JOIN chat_messages m ON m.id = t.message_id
   WHERE t.session_id = s.id AND t.state = 'ended' AND json_extract(m.metadata_json, '$.hidden_at') IS NULL
     AND json_extract(t.outcome_json, '$.into') IS NULL
   ORDER BY t.seq DESC LIMIT 1) AS last_outcome
FROM chat_sessions s
"""
_SESSIONS = f"""
{_SESSION}
WHERE json_extract(metadata_json, '$.principal') = :principal
  AND (updated_at, id) < (:at, :id)
  AND (:archived OR archived_at IS NULL)
  AND (:ephemeral OR json_extract(metadata_json, '$.ephemeral') IS NULL)
  AND NOT EXISTS (SELECT 1 FROM session_retention r WHERE r.session_id = id AND r.marked_at IS NOT NULL)
  AND (:only IS NULL OR id IN (SELECT value FROM json_each(:only)))
  AND (:without IS NULL OR id NOT IN (SELECT value FROM json_each(:without)))
  AND (:ended IS NULL
       OR coalesce(json_extract(last_outcome, '$.status'), '') IN (SELECT value FROM json_each(:errors)) = :ended)
ORDER BY updated_at DESC, id DESC LIMIT :limit
"""  # noqa: S608  no value is in it
_MESSAGES = """
SELECT * FROM chat_messages
WHERE session_id = :session AND (created_at, id) > (:at, :id)
  AND json_extract(metadata_json, '$.queued_at') IS NULL
  AND (:hidden OR json_extract(metadata_json, '$.hidden_at') IS NULL)
  AND id IS NOT :without
ORDER BY created_at, id LIMIT :limit
"""
_MESSAGES_BEFORE = _MESSAGES.replace("> (:at, :id)", "< (:at, :id)").replace(
    "created_at, id L", "created_at DESC, id DESC L"
)
_WAITING = """
SELECT t.message_id, t.client_id, json_extract(m.metadata_json, '$.queued_at') AS queued_at
FROM turns t JOIN chat_messages m ON m.id = t.message_id
WHERE t.session_id = ? AND t.state = 'queued' ORDER BY t.seq
"""
_SPENT = """
SELECT coalesce(json_extract(metadata_json, '$.model.model_id'), :model) AS model,
  coalesce(sum(json_extract(metadata_json, '$.usage.input')), 0) AS input,
  coalesce(sum(json_extract(metadata_json, '$.usage.output')), 0) AS output,
  coalesce(sum(json_extract(metadata_json, '$.usage.reasoning')), 0) AS reasoning,
  coalesce(sum(json_extract(metadata_json, '$.usage.cache_read')), 0) AS cache_read,
  coalesce(sum(json_extract(metadata_json, '$.usage.cache_write')), 0) AS cache_write,
  sum(json_extract(metadata_json, '$.usage.cost_usd')) AS cost_usd,
  sum(json_extract(metadata_json, '$.usage.cost_usd') IS NULL
    AND coalesce(json_extract(metadata_json, '$.usage.input'), 0)
    + coalesce(json_extract(metadata_json, '$.usage.output'), 0)
    + coalesce(json_extract(metadata_json, '$.usage.reasoning'), 0)
    + coalesce(json_extract(metadata_json, '$.usage.cache_read'), 0)
    + coalesce(json_extract(metadata_json, '$.usage.cache_write'), 0) > 0) AS uncounted
FROM chat_messages WHERE session_id = :session AND role = 'assistant' GROUP BY 1 ORDER BY 1
"""
_FALLBACKS = """
SELECT coalesce(json_extract(metadata_json, '$.model.model_id'), :model) AS model, metadata_json
FROM chat_messages WHERE session_id = :session AND role = 'assistant'
  AND json_extract(metadata_json, '$.fallbacks') IS NOT NULL
"""
Cursor = tuple[int, str]
"""Time and id of a row."""
START: Cursor = (-1, "")
END: Cursor = (2**63 - 1, "")


@dataclass(frozen=True, slots=True)
class StoredSession:
    """The columns of a session, with parsed JSON."""

    id: str
    agent: str
    model: str
    parent_id: str | None
    parent_message_id: str | None
    metadata: dict[str, Any]
    """The product's own keys; the caller's are under `custom`."""
    usage: Usage
    created_at: int
    updated_at: int
    archived_at: int | None
    alias: str | None
    last_outcome: dict[str, Any] | None
    """The outcome of the last turn that is still part of the conversation; None if there is none."""


@dataclass(frozen=True, slots=True)
class SessionChoice:
    """Which of a principal's sessions to list."""

    archived: bool = False
    """Archived ones too."""
    ephemeral: bool = False
    """Side conversations too."""
    only: Collection[str] | None = None
    """Only sessions with one of these ids; None: any."""
    without: Collection[str] | None = None
    """No sessions with one of these ids."""
    in_error: bool | None = None
    """Only sessions whose last turn ended in an error, or only others; None: both."""
    error_statuses: Collection[str] = ()
    """The statuses of outcomes that are errors."""

    def parameters(self) -> dict[str, object]:
        return {
            "archived": self.archived,
            "ephemeral": self.ephemeral,
            "only": None if self.only is None else dump([*self.only]),
            "without": None if self.without is None else dump([*self.without]),
            "ended": self.in_error,
            "errors": dump([*self.error_statuses]),
        }


_ALL = SessionChoice()


@dataclass(slots=True)
class SessionPage:
    """One page of a list of sessions."""

    sessions: list[StoredSession]
    broken: list[str] = field(default_factory=list[str])
    """Ids of sessions on this page whose rows cannot be read."""
    next: Cursor | None = None
    """The position after the page; None if it is the last one."""


@dataclass(frozen=True, slots=True)
class MessagePage:
    """One page of a session's messages, oldest first."""

    messages: list[Message]
    edge: Cursor | None
    """The position at which the next page begins, or ends if pages are read backwards; None if this is the last."""


@dataclass(frozen=True, slots=True)
class WaitingMessage:
    """A message in the queue."""

    message_id: str
    client_id: str | None
    queued_at: int
    parts: list[dict[str, Any]]


def unknown_session(name: str) -> NotFound:
    """Return the error for a session that does not exist or is not the caller's."""
    return NotFound(f"there is no session {name}; one begins with its first message", code="unknown_session")


def parse_cursor(text: str) -> Cursor | None:
    """Parse the output of `format_cursor`; None for any other text."""
    found = _CURSOR.fullmatch(text)
    return (int(found[1]), found[2]) if found else None


def format_cursor(timestamp: int, row_id: str) -> str:
    """Return the position after a row as text, for `after` parameters."""
    return f"{timestamp}.{row_id}"


@contextmanager
def read_transaction(connection: sqlite3.Connection) -> Generator[None]:
    """Run several reads on one snapshot of the database."""
    connection.execute("BEGIN")
    try:
        yield
    finally:
        connection.execute("ROLLBACK")


def sessions(
    connection: sqlite3.Connection,
    principal: str,
    *,
    limit: int,
    after: Cursor | None = None,
    choice: SessionChoice = _ALL,
) -> SessionPage:
    """Return a page of a principal's sessions, the one that changed last first. None: the first page."""
    at, row_id = after or (2**62, "")
    wanted = {"principal": principal, "at": at, "id": row_id, "limit": limit + 1}
    page = SessionPage([])
    size = PageSize(MAX_PAGE_BYTES)
    last: Cursor | None = None
    with closing(connection.execute(_SESSIONS, {**wanted, **choice.parameters()})) as listed:
        for row in listed:
            size.add(row["metadata_json"], row["last_outcome"])
            if last is not None and (size.is_full or len(page.sessions) + len(page.broken) == limit):
                page.next = last
                break
            last = row["updated_at"], row["id"]
            try:
                page.sessions.append(_session(row))
            except (BrokenRecord, ValueError, LookupError, TypeError):
                page.broken.append(row["id"])
    return page


def session(connection: sqlite3.Connection, session_id: str) -> StoredSession | None:
    row = connection.execute(f"{_SESSION} WHERE s.id = ?", (session_id,)).fetchone()
    return _session(row) if row else None


def messages(
    connection: sqlite3.Connection,
    session_id: str,
    *,
    limit: int,
    after: Cursor | None = None,
    before: Cursor | None = None,
    hidden: bool = False,
    without: str | None = None,
) -> MessagePage:
    """Return a page of a session's messages without queued ones and the one with the id `without`: the first ones after
    a position, or the last ones before one. It has at most `limit` messages and the size of a page, and always one."""
    at, row_id = before or after or START
    wanted = {"session": session_id, "at": at, "id": row_id, "limit": limit + 1, "hidden": hidden, "without": without}
    query = _MESSAGES_BEFORE if before else _MESSAGES
    found: list[tuple[sqlite3.Row, list[str]]] = []
    size = PageSize(MAX_PAGE_BYTES)
    edge: Cursor | None = None
    with read_transaction(connection), closing(connection.execute(query, wanted)) as listed:
        for row in listed:
            parts = _stored_parts(connection, row["id"])
            size.add(row["metadata_json"], *parts)
            if found and (size.is_full or len(found) == limit):
                last = found[-1][0]
                edge = last["created_at"], last["id"]
                break
            found.append((row, parts))
    if before:
        found.reverse()
    return MessagePage([_message(row, parts) for row, parts in found], edge)


def message_cursor(connection: sqlite3.Connection, message_id: str) -> Cursor:
    """Return the position after an existing message."""
    row = connection.execute("SELECT created_at FROM chat_messages WHERE id = ?", (message_id,)).fetchone()
    return row[0], message_id


def queued_messages(connection: sqlite3.Connection, session_id: str) -> list[WaitingMessage]:
    """Return the queued messages of a session in order. The parts of those beyond the size of a page are left out."""
    waiting: list[WaitingMessage] = []
    size = PageSize(MAX_PAGE_BYTES)
    with read_transaction(connection):
        for row in connection.execute(_WAITING, (session_id,)).fetchall():
            parts = [] if size.is_full else _stored_parts(connection, row["message_id"])
            size.add(*parts)
            if row["queued_at"] is not None:
                shown = [load(one) for one in parts]
                waiting.append(WaitingMessage(row["message_id"], row["client_id"], row["queued_at"], shown))
    return waiting


def usage_by_model(connection: sqlite3.Connection, session_id: str, model: str) -> dict[str, Usage]:
    """Return model -> its usage over all answers, including hidden ones. `model` is used for answers that name none.
    What a model has used in place of another one is its own.

    The cost is what the mesh reported with each call; None if it is missing for any answer that used tokens.
    """
    found = connection.execute(_SPENT, {"session": session_id, "model": model})
    spent = {row["model"]: _usage(row) for row in found}
    for row in connection.execute(_FALLBACKS, {"session": session_id, "model": model}):
        spent = apportioned(spent, row["model"], read_fallbacks(load(row["metadata_json"])))
    return spent


def _stored_parts(connection: sqlite3.Connection, message_id: str) -> list[str]:
    query = 'SELECT data_json FROM chat_parts WHERE message_id = ? ORDER BY "index"'
    return [row["data_json"] for row in connection.execute(query, (message_id,))]


def _message(row: sqlite3.Row, parts: list[str]) -> Message:
    metadata = load(row["metadata_json"])
    return Message(row["id"], row["role"], metadata, [load(one) for one in parts], row["created_at"])


def _session(row: sqlite3.Row) -> StoredSession:
    for value in row:
        if isinstance(value, str) and not value.isascii():
            value.encode()  # raises ValueError for bytes that were no UTF-8
    columns = {"input": "prompt_tokens", "output": "completion_tokens", "reasoning": "reasoning_tokens"}
    return StoredSession(
        id=row["id"],
        agent=row["agent"],
        model=load(row["model_json"])["model_id"],
        parent_id=row["parent_id"],
        parent_message_id=row["parent_message_id"],
        metadata=load(row["metadata_json"]),
        usage=Usage(
            **{bucket: row[column] for bucket, column in columns.items()},
            cache_read=row["cache_read"],
            cache_write=row["cache_write"],
        ),
        created_at=row["created_at"],
        updated_at=row["updated_at"],
        archived_at=row["archived_at"],
        alias=row["alias"],
        last_outcome=load(row["last_outcome"]) if row["last_outcome"] else None,
    )


def _usage(row: sqlite3.Row) -> Usage:
    buckets = ("input", "output", "reasoning", "cache_read", "cache_write")
    cost = None if row["uncounted"] else row["cost_usd"]
    return Usage(**{bucket: row[bucket] for bucket in buckets}, cost_usd=cost)
