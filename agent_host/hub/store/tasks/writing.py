"""Writing tasks: each change over the version that it was made from, so that one that is over stays as it is."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, and_, insert, select, update

from ....database import hub_audit, hub_sessions, hub_tasks
from ..rows import Conflict, TaskCheckpoint, TaskRow, TasksEnd
from .rows import ended_row, termination

_FIELDS = [hub_tasks.c[name] for name in TaskRow._fields]


def write_tasks(connection: Connection, rows: Sequence[TaskRow | TaskCheckpoint | TasksEnd]) -> None:
    """Write changes of tasks in their order. Raises Conflict if one was made from another version than is there."""
    for row in rows:
        if isinstance(row, TasksEnd):
            _end(connection, row)
        elif isinstance(row, TaskCheckpoint):
            of_task = update(hub_tasks).where(hub_tasks.c.task_id == row.task_id)
            connection.execute(of_task.values(checkpoint=row.checkpoint))
        else:
            _write(connection, row)


def _write(connection: Connection, row: TaskRow) -> None:
    if row.completed_at is None and row.session_id is not None:
        _require_open(connection, row.session_id)
    if row.version == 1:
        connection.execute(insert(hub_tasks), row._asdict())
    else:
        _replace(connection, row)


def _replace(connection: Connection, row: TaskRow) -> None:
    before = and_(hub_tasks.c.task_id == row.task_id, hub_tasks.c.version == row.version - 1)
    if not connection.execute(update(hub_tasks).where(before).values(row._asdict())).rowcount:
        raise Conflict


def _require_open(connection: Connection, session_id: str) -> None:
    query = select(hub_sessions.c.closed_at).where(hub_sessions.c.session_id == session_id)
    if connection.execute(query).scalar() is not None:
        raise Conflict


def _end(connection: Connection, end: TasksEnd) -> None:
    tasks = hub_tasks.c
    of_these = tasks.session_id == end.session_id if end.session_id is not None else tasks.owner_id == end.owner_id
    for found in connection.execute(select(*_FIELDS).where(and_(of_these, tasks.completed_at.is_(None)))).all():
        row = ended_row(TaskRow(*found), end)
        _replace(connection, row)
        connection.execute(insert(hub_audit), termination(row, end.at)._asdict())
