"""Which ends of tasks the host has not acknowledged (docs/reference/results.md#how-a-result-travels).

A row is inserted in the transaction that ends its task, and names the task only: the task keeps its own record.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass

from agent_common.telemetry import logger

from ...loop import StoredTask, assignment_of
from ...store import Migration

log = logger(__name__)
MAX_KEPT = 10_000
"""Most ends that wait for a host. Beyond that the oldest are not reported; `/result` has them like any other."""


def _create(connection: sqlite3.Connection) -> None:
    connection.execute(
        "CREATE TABLE task_reports (seq INTEGER PRIMARY KEY AUTOINCREMENT, message_id TEXT NOT NULL UNIQUE)"
    )


MIGRATION = Migration(10, "ends of tasks that the host does not have", _create)


@dataclass(frozen=True, slots=True)
class WaitingReport:
    """An end that waits for its acknowledgement."""

    seq: int
    message_id: str
    task: StoredTask | None
    """None if the task cannot be read, or is no longer there."""


def insert_report(connection: sqlite3.Connection, task_id: str, message_id: str, limit: int = MAX_KEPT) -> None:
    """Add the end of a task, unless it is known, or the task is work of the host, which has its own result. Call it in
    the transaction that ends the task. `limit`: the most ends that wait."""
    added = connection.execute(
        "INSERT INTO task_reports (message_id) SELECT :message"
        " WHERE NOT EXISTS (SELECT 1 FROM work WHERE request_id = :task AND message_id = :message)"
        " AND NOT EXISTS (SELECT 1 FROM task_reports WHERE message_id = :message)",
        {"message": message_id, "task": task_id},
    )
    if added.rowcount:
        query = "DELETE FROM task_reports WHERE seq <= (SELECT max(seq) FROM task_reports) - ?"
        if dropped := connection.execute(query, (limit,)).rowcount:
            log.warning("the host is away for too long: the oldest results are not reported", dropped=dropped)


def waiting_reports(connection: sqlite3.Connection, after: int, limit: int) -> list[WaitingReport]:
    """Return ends with a `seq` above `after`, the oldest first."""
    query = "SELECT seq, message_id FROM task_reports WHERE seq > ? ORDER BY seq LIMIT ?"
    rows = connection.execute(query, (after, limit)).fetchall()
    return [WaitingReport(row[0], row[1], _task(connection, row[1])) for row in rows]


def delete_reports(connection: sqlite3.Connection, message_ids: Sequence[str]) -> None:
    connection.executemany("DELETE FROM task_reports WHERE message_id = ?", [(one,) for one in message_ids])


def acknowledge_report(connection: sqlite3.Connection, user: str, task_id: str) -> None:
    """Delete the report that the host has recorded. No effect if there is none."""
    query = (
        "DELETE FROM task_reports WHERE message_id = (SELECT message_id FROM tasks WHERE principal = ? AND task_id = ?)"
    )
    connection.execute(query, (user, task_id))


def _task(connection: sqlite3.Connection, message_id: str) -> StoredTask | None:
    try:
        return assignment_of(connection, message_id)
    except (ValueError, LookupError, TypeError, AttributeError) as error:  # a row with unexpected content
        log.error("a task cannot be read, so its end is not reported", message_id=message_id, error=str(error))
        return None
