"""Writing rows: one statement for each kind."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from sqlalchemy import Connection, Table, delete, insert
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.sql.dml import Insert

from ...database import (
    hub_agents,
    hub_audit,
    hub_cursors,
    hub_dead_letters,
    hub_envelopes,
    hub_sessions,
    hub_turns,
)
from .rows import (
    AgentRemoval,
    AgentRow,
    AuditRow,
    CursorRow,
    DeadLetterRow,
    EnvelopeRow,
    Row,
    SessionRow,
    TaskCheckpoint,
    TaskRow,
    TasksEnd,
    TurnRow,
)
from .tasks import write_tasks

_INSERTED: dict[type[Row], Table] = {
    EnvelopeRow: hub_envelopes, DeadLetterRow: hub_dead_letters, AuditRow: hub_audit
}  # fmt: skip
_UPSERTED: dict[type[Row], Table] = {
    AgentRow: hub_agents, SessionRow: hub_sessions, CursorRow: hub_cursors, TurnRow: hub_turns
}  # fmt: skip


def write_each(connection: Connection, batch: Sequence[Sequence[Row]]) -> list[Exception | None]:
    """Write submissions. Raises IntegrityError or Conflict if one of them conflicts with what is there."""
    write_rows(connection, [row for rows in batch for row in rows])
    return [None] * len(batch)


def write_rows(connection: Connection, rows: Sequence[Row]) -> None:
    """Write rows. Of those that replace each other only the last is written."""
    by_kind: dict[type[Row], list[Row]] = {}
    tasks: list[TaskRow | TaskCheckpoint | TasksEnd] = []
    for row in rows:
        if isinstance(row, TaskRow | TaskCheckpoint | TasksEnd):
            tasks.append(row)
        else:
            by_kind.setdefault(type(row), []).append(row)
    for kind, some in by_kind.items():
        if kind is AgentRemoval:
            names = [row.agent_id for row in some if isinstance(row, AgentRemoval)]
            connection.execute(delete(hub_agents).where(hub_agents.c.agent_id.in_(names)))
        elif (table := _INSERTED.get(kind)) is not None:
            connection.execute(insert(table), [row._asdict() for row in some])
        else:
            table = _UPSERTED[kind]
            connection.execute(_upsert(connection.dialect.name, table), latest_of(table, some))
    write_tasks(connection, tasks)  # after the sessions, because a new task must find its own open


def latest_of(table: Table, rows: Sequence[Row]) -> list[dict[str, object]]:
    """The last of the rows that have the same key."""
    latest = {tuple(getattr(row, column.name) for column in table.primary_key): row for row in rows}
    return [row._asdict() for row in latest.values()]


@cache
def _upsert(dialect: str, table: Table) -> Insert:
    statement = (sqlite if dialect == "sqlite" else postgresql).insert(table)
    keys = [column.name for column in table.primary_key]
    changed = {column.name: statement.excluded[column.name] for column in table.c if column.name not in keys}
    return statement.on_conflict_do_update(index_elements=keys, set_=changed)
