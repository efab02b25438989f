"""Delete rows that need not be kept any longer, in small steps.

A step is one short transaction, so that writers wait only for milliseconds. Open work is never deleted, nor is a result
that no caller has read, nor a finished request as long as a request with its id could still be valid.

Where there are too many rows, the workspaces and agents with the most of them lose theirs (`shares`): otherwise one
that writes without end would remove what the audit trail says of all others.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Column, ColumnElement, Connection, Table, delete, func, select

from .hub_owners import owner_of_id
from .hub_pruning import SessionPass
from .hub_task_tables import hub_tasks
from .mesh_tables import agent_requests, topic_dead_letters
from .shares import STEP_ROWS, SharePass
from .tables import (
    budget_spending,
    constraint_sets,
    deleted_workspaces,
    hub_audit,
    hub_dead_letters,
    model_calls,
    task_results,
    work,
    work_audit,
)

MOST_KEPT = 10_000
"""Number of rows to keep, after which a pass over a table ends."""
DAY_MS = 86_400_000
WORK_DAYS = 7
"""Days that a request's id is kept whatever the setting, because a request may be valid for a week before it starts."""
AGENT_EVENTS = (
    *("attached", "detached", "duplicate_result", "callback_failed"),
    *("constraints_not_in_force", "retry_wait"),
)
BAD_LINE = "bad_line."
"""Types of the host's rows in the audit trail, and the beginning of types, that an agent can cause at will."""
_FREED_PAGES = 1000
Step = Callable[[Connection], int | None]
"""Deletes a few rows. Returns their number, or None if there is nothing more to do."""


@dataclass(frozen=True, slots=True)
class PruningLimits:
    """How much is kept, by age and by number; 0 means no limit."""

    days: int
    rows: int
    """Number of newest rows to keep in each table."""


def pruning_steps(limits: PruningLimits, now: int) -> list[tuple[str, Step]]:
    """Return the steps of one pass, each with its table. `now`: epoch milliseconds."""
    before = now - limits.days * DAY_MS if limits.days else 0
    audited = work_audit.c
    results = task_results.c
    host = audited.direction == "host"
    noticed = audited.type.like("alarm.%") | audited.type.like(f"{BAD_LINE}%") | audited.type.in_(AGENT_EVENTS)
    yields = [~host, host & noticed, host & ~noticed]
    sent = results.delivery_state.is_(None) | (results.delivery_state != "pending")
    may_go = _may_go(now)
    ended = work.c.finished_at
    over = hub_tasks.c.completed_at.is_not(None)
    return [
        ("work_audit", _Walk(work_audit, audited.at, before).step),
        ("work_audit", SharePass(work_audit, audited.workspace, limits.rows, yields=yields).step),
        ("model_calls", _Walk(model_calls, model_calls.c.started_at, before).step),
        ("model_calls", SharePass(model_calls, model_calls.c.agent_id, limits.rows).step),
        ("budget_spending", lambda connection: _prune_spending(connection, now)),
        ("work", lambda connection: _prune_work(connection, may_go & (ended < before))),
        ("work", SharePass(work, work.c.workspace, limits.rows, [may_go], key=work.c.request_id, age=ended).step),
        ("agent_requests", lambda connection: _prune_agent_requests(connection, now)),
        ("task_results", lambda connection: _prune_results(connection, sent & (results.recorded_at < before))),
        ("task_results", SharePass(task_results, results.workspace, limits.rows, yields=[sent]).step),
        ("constraint_sets", lambda connection: _prune_constraints(connection, before)),
        ("hub_sessions", SessionPass(before, limits.rows).step),
        ("hub_tasks", lambda connection: _prune_tasks(connection, before)),
        ("hub_tasks", SharePass(hub_tasks, owner_of_id(hub_tasks.c.owner_id), limits.rows, yields=[over]).step),
        ("hub_dead_letters", _Walk(hub_dead_letters, hub_dead_letters.c.at, before).step),
        ("hub_dead_letters", SharePass(hub_dead_letters, owner_of_id(hub_dead_letters.c.agent_id), limits.rows).step),
        ("topic_dead_letters", _Walk(topic_dead_letters, topic_dead_letters.c.at, before).step),
        ("topic_dead_letters", SharePass(topic_dead_letters, topic_dead_letters.c.agent, limits.rows).step),
        ("hub_audit", _Walk(hub_audit, hub_audit.c.at, before).step),
        ("hub_audit", SharePass(hub_audit, owner_of_id(hub_audit.c.agent_id), limits.rows).step),
        ("deleted_workspaces", lambda connection: _prune_deleted(connection, min(before, now - WORK_DAYS * DAY_MS))),
    ]


class _Walk:
    """A pass over an append-only table, from its oldest row to the row that was the newest when the pass began: rows
    that are written meanwhile would keep the pass from ending. Times may jump with the clock, so the pass continues for
    `MOST_KEPT` rows after rows that are kept."""

    def __init__(self, table: Table, at: Column[Any], before: int) -> None:
        self._table = table
        self._at = at
        self._before = before
        self._after = self._kept = 0
        self._newest: int | None = None

    def step(self, connection: Connection) -> int | None:
        ids = self._table.c.id
        if self._newest is None:
            self._newest = connection.execute(select(func.max(ids))).scalar() or 0
        newest = self._newest
        query = select(ids, self._at).where((ids > self._after) & (ids <= newest)).order_by(ids).limit(STEP_ROWS)
        found = connection.execute(query).all()
        if not found or self._kept >= MOST_KEPT:
            return None
        old = [row for row, at in found if at < self._before]
        self._after = found[-1][0]
        self._kept = self._kept + len(found) - len(old)
        connection.execute(delete(self._table).where(ids.in_(old)))
        return len(old)


def _may_go(now: int) -> ColumnElement[bool]:
    """Match finished requests that may be deleted. A result is kept until a caller has read it, but for that of work
    that one agent has given another: no agent reads the end of what it has handed off. The operator may."""
    asked = agent_requests.c
    by_agent = (asked.request_id == work.c.request_id) & (asked.caller != "operator")
    given = select(asked.request_id).where(by_agent).exists()
    return (work.c.finished_at < now - WORK_DAYS * DAY_MS) & ((work.c.status != "resulted") | given)


def _prune_work(connection: Connection, old: ColumnElement[bool]) -> int | None:
    found = select(work.c.request_id).where(old).order_by(work.c.finished_at).limit(STEP_ROWS)
    ids = connection.execute(found).scalars().all()
    connection.execute(delete(work).where(work.c.request_id.in_(ids)))
    return len(ids) or None


def _prune_tasks(connection: Connection, before: int) -> int | None:
    """Delete tasks of the hub that are over."""
    ended = hub_tasks.c.completed_at
    ids = connection.execute(select(hub_tasks.c.id).where(ended < before).limit(STEP_ROWS)).scalars().all()
    connection.execute(delete(hub_tasks).where(hub_tasks.c.id.in_(ids)))
    return len(ids) or None


def _prune_agent_requests(connection: Connection, now: int) -> int | None:
    """Delete who has asked for work that is over and deleted."""
    there = select(work.c.request_id).where(work.c.request_id == agent_requests.c.request_id)
    old = select(agent_requests.c.request_id).where(agent_requests.c.created_at < now - WORK_DAYS * DAY_MS)
    ids = connection.execute(old.where(~there.exists()).limit(STEP_ROWS)).scalars().all()
    connection.execute(delete(agent_requests).where(agent_requests.c.request_id.in_(ids)))
    return len(ids) or None


def _prune_spending(connection: Connection, now: int) -> int | None:
    """Delete what budgets have used in months that are over for more than a month."""
    month = datetime.fromtimestamp((now - 62 * DAY_MS) / 1000, UTC).strftime("%Y-%m")
    gone = connection.execute(delete(budget_spending).where(budget_spending.c.period < month)).rowcount
    return gone or None


def _prune_results(connection: Connection, old: ColumnElement[bool]) -> int | None:
    ids = task_results.c.id
    found = connection.execute(select(ids).where(old).order_by(ids).limit(STEP_ROWS)).scalars().all()
    connection.execute(delete(task_results).where(ids.in_(found)))
    return len(found) or None


def _prune_constraints(connection: Connection, before: int) -> int | None:
    """Delete constraints that are no longer in force."""
    sets = constraint_sets
    newer = sets.alias()
    mine = newer.c.workspace == sets.c.workspace
    replaced = select(newer.c.version).where(mine & (newer.c.version > sets.c.version))
    old = select(sets.c.workspace, sets.c.version).where((sets.c.created_at < before) & replaced.exists())
    found = connection.execute(old.limit(STEP_ROWS)).all()
    for workspace, version in found:
        connection.execute(delete(sets).where((sets.c.workspace == workspace) & (sets.c.version == version)))
    return len(found) or None


def _prune_deleted(connection: Connection, before: int) -> int | None:
    """Delete what is known of workspaces that were deleted long ago."""
    old = select(deleted_workspaces.c.workspace).where(deleted_workspaces.c.deleted_at < before)
    names = connection.execute(old.limit(STEP_ROWS)).scalars().all()
    connection.execute(delete(deleted_workspaces).where(deleted_workspaces.c.workspace.in_(names)))
    return len(names) or None


def release_free_pages(connection: Connection) -> None:
    """Return some free pages to the file system. Only SQLite needs this, and only if the database was created with
    `auto_vacuum`; otherwise SQLite reuses the pages."""
    if connection.dialect.name == "sqlite":
        driver: Any = connection.connection.driver_connection
        driver.executescript(f"PRAGMA incremental_vacuum({_FREED_PAGES})")  # `execute` would release only one page
