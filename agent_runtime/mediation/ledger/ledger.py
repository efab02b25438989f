"""The ledger of work and the outbox of its results, in the database of the sessions
(docs/protocols/mediation.md#27-reconnects-and-ids).

A request is inserted in the transaction that admits its turn, and its result in the one that ends the turn. After a
crash before the first, the host has not seen `accepting` and sends the request again; between the two, the turn
continues in the next process; after the second, the result stays in the outbox until the host has acknowledged it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from agent_common.protocol.work import WorkRequest, WorkResult

from ...store import Migration
from . import task_reports

KEPT_MS = 24 * 3_600_000
MAX_KEPT_RESULTS = 1024
"""Maximum results that are kept for repeated requests after they were acknowledged, or sent to a host that never
acknowledges. Results that wait for an acknowledgement are all kept."""
_TABLE = """
CREATE TABLE work (
  request_id TEXT PRIMARY KEY,
  fingerprint TEXT NOT NULL,
  request_json TEXT NOT NULL,
  message_id TEXT NOT NULL,
  result_json TEXT,
  sent_at INTEGER,
  acked_at INTEGER,
  created_at INTEGER NOT NULL
)
"""
"""With row ids: in a WITHOUT ROWID table, rows of a kilobyte and more would make the tree of keys slow."""
_CHANNEL = "CREATE TABLE channel (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID"


def _create(connection: sqlite3.Connection) -> None:
    connection.execute(_TABLE)
    connection.execute("CREATE INDEX work_outbox ON work (created_at) WHERE acked_at IS NULL")
    connection.execute("CREATE INDEX work_kept ON work (acked_at) WHERE acked_at IS NOT NULL")
    connection.execute(_CHANNEL)


MIGRATIONS = (Migration(8, "work and its results", _create), task_reports.MIGRATION)
State = Literal["running", "done"]


@dataclass(frozen=True, slots=True)
class WorkEntry:
    """A request as stored."""

    request: WorkRequest
    fingerprint: str
    message_id: str
    """The message of its turn; empty for work without one."""
    result: WorkResult | None
    sent: bool
    """Whether the result was sent on a connection."""
    acked: bool
    """Whether the host has the result, or does not want it."""


class AlreadyEntered(Exception):
    """Raised if the id is already in use, by a concurrent copy of the request."""


def insert_request(connection: sqlite3.Connection, request: WorkRequest, message_id: str, now: int) -> None:
    """Insert a request. Raises AlreadyEntered."""
    values = (request.request_id, request.fingerprint(), request.model_dump_json(), message_id, now)
    try:
        connection.execute(
            "INSERT INTO work (request_id, fingerprint, request_json, message_id, created_at) VALUES (?, ?, ?, ?, ?)",
            values,
        )
    except sqlite3.IntegrityError as error:
        raise AlreadyEntered(request.request_id) from error


def save_result(connection: sqlite3.Connection, result: WorkResult) -> None:
    """Put the result into the outbox, unless there is one already."""
    connection.execute(
        "UPDATE work SET result_json = ? WHERE request_id = ? AND result_json IS NULL",
        (result.model_dump_json(), result.request_id),
    )


def acknowledge(connection: sqlite3.Connection, request_ids: Sequence[str], now: int) -> None:
    """Mark the results as acknowledged and delete the oldest acknowledged ones beyond the limit.

    A deleted request that is sent again is refused while its message or task exists, and is new work afterwards.
    Requests without a result are not changed.
    """
    connection.executemany(
        "UPDATE work SET acked_at = ? WHERE request_id = ? AND acked_at IS NULL AND result_json IS NOT NULL",
        [(now, request_id) for request_id in request_ids],
    )
    kept: int = connection.execute("SELECT count(*) FROM work WHERE acked_at IS NOT NULL").fetchone()[0]
    if kept > MAX_KEPT_RESULTS:
        connection.execute(
            "DELETE FROM work WHERE request_id IN"
            " (SELECT request_id FROM work WHERE acked_at IS NOT NULL ORDER BY acked_at LIMIT ?)",
            (kept - MAX_KEPT_RESULTS,),
        )
    connection.execute("DELETE FROM work WHERE acked_at < ? AND acked_at IS NOT NULL", (now - KEPT_MS,))


def mark_sent(connection: sqlite3.Connection, request_id: str, now: int) -> None:
    """Record that the result was sent to a host that never acknowledges, so that its arrival is uncertain. The oldest
    of these beyond the limit are deleted."""
    connection.execute("UPDATE work SET sent_at = ? WHERE request_id = ? AND sent_at IS NULL", (now, request_id))
    waiting: int = connection.execute("SELECT count(*) FROM work WHERE acked_at IS NULL").fetchone()[0]
    connection.execute(
        "DELETE FROM work WHERE request_id IN (SELECT request_id FROM work WHERE acked_at IS NULL"
        " AND sent_at IS NOT NULL AND result_json IS NOT NULL ORDER BY created_at LIMIT ?)",
        (max(0, waiting - MAX_KEPT_RESULTS),),
    )
    connection.execute(
        "DELETE FROM work WHERE acked_at IS NULL AND created_at < ?"
        " AND sent_at IS NOT NULL AND result_json IS NOT NULL",
        (now - KEPT_MS,),
    )


def find(connection: sqlite3.Connection, request_id: str) -> WorkEntry | None:
    row = connection.execute("SELECT * FROM work WHERE request_id = ?", (request_id,)).fetchone()
    return _entry(row) if row is not None else None


def unfinished(connection: sqlite3.Connection) -> list[WorkEntry]:
    """Return the requests without a result, the oldest first."""
    query = "SELECT * FROM work WHERE acked_at IS NULL AND result_json IS NULL ORDER BY created_at, request_id"
    return [_entry(row) for row in connection.execute(query).fetchall()]


def unfinished_ids(connection: sqlite3.Connection, limit: int) -> tuple[str, ...]:
    """Return the ids of requests without a result, the oldest first."""
    query = "SELECT request_id FROM work WHERE acked_at IS NULL AND result_json IS NULL ORDER BY created_at LIMIT ?"
    return tuple(row[0] for row in connection.execute(query, (limit,)).fetchall())


def unacknowledged_ids(connection: sqlite3.Connection, *, unsent: bool = False) -> tuple[str, ...]:
    """Return the ids of requests with an unacknowledged result, the oldest first. `unsent`: only those never sent."""
    query = "SELECT request_id FROM work WHERE acked_at IS NULL AND result_json IS NOT NULL"
    query += " AND sent_at IS NULL ORDER BY created_at" if unsent else " ORDER BY created_at"
    return tuple(row[0] for row in connection.execute(query).fetchall())


def needed_sessions(connection: sqlite3.Connection) -> list[str]:
    """Return the sessions of requests and tasks whose result the host does not have yet."""
    query = (
        "SELECT session_id FROM chat_messages WHERE id IN (SELECT message_id FROM work WHERE acked_at IS NULL"
        " UNION SELECT message_id FROM task_reports)"
    )
    return [*dict.fromkeys(row[0] for row in connection.execute(query))]


def last_epoch(connection: sqlite3.Connection) -> int:
    row = connection.execute("SELECT value FROM channel WHERE name = 'epoch'").fetchone()
    return row[0] if row is not None else 0


def save_epoch(connection: sqlite3.Connection, epoch: int) -> None:
    connection.execute("INSERT OR REPLACE INTO channel VALUES ('epoch', ?)", (epoch,))


def _entry(row: sqlite3.Row) -> WorkEntry:
    """Parse our own rows without checks against the current rules, so that rows of older versions stay readable."""
    result = row["result_json"]
    return WorkEntry(
        WorkRequest.model_validate_json(row["request_json"]),
        row["fingerprint"],
        row["message_id"],
        WorkResult.model_validate_json(result) if result is not None else None,
        row["sent_at"] is not None,
        row["acked_at"] is not None,
    )
