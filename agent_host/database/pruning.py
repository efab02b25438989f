"""Deletes what is older than it must be kept, a few rows at a time.

A step is one short transaction, so that writers wait for milliseconds. What is open is never deleted, nor is a result
that nobody has read, nor a finished request for as long as one with its id may still be valid.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Column, Connection, Table, delete, func, select

from .tables import constraint_sets, model_calls, work, work_audit

STEP_ROWS = 500
MOST_KEPT = 10_000
"""Rows in a row that need not be deleted, after which a ledger is not looked at any further."""
DAY_MS = 86_400_000
WORK_DAYS = 7
"""Days. A request may be valid for a week before it begins, so its id is kept at least that long, by any setting."""
_FREED_PAGES = 1000
Step = Callable[[Connection], int | None]
"""Does a little; gives how many rows it has deleted, and none when there is nothing more to do."""


@dataclass(frozen=True, slots=True)
class PruningLimits:
    """What is kept. Nought is without a limit."""

    days: int
    rows: int
    """Of each table, the newest."""


def pruning_steps(limits: PruningLimits, now: int) -> dict[str, Step]:
    """By table, for one pass. `now`: epoch milliseconds."""
    before = now - limits.days * DAY_MS if limits.days else 0
    return {
        "work_audit": _Walk(work_audit, work_audit.c.at, before, limits.rows).step,
        "model_calls": _Walk(model_calls, model_calls.c.started_at, before, limits.rows).step,
        "work": lambda connection: _prune_work(connection, limits, now),
        "constraint_sets": lambda connection: _prune_constraints(connection, before),
    }


class _Walk:
    """From the oldest row of a table that only grows, in the order in which its rows were written. Their times may jump
    with the clock, so it goes on for a while behind a row that is kept."""

    def __init__(self, table: Table, at: Column[Any], before: int, rows: int) -> None:
        self._table, self._at, self._before, self._rows = table, at, before, rows
        self._after = self._kept = 0

    def step(self, connection: Connection) -> int | None:
        ids = self._table.c.id
        query = select(ids, self._at).where(ids > self._after).order_by(ids).limit(STEP_ROWS)
        found = connection.execute(query).all()
        if not found or self._kept >= MOST_KEPT:
            return None
        newest: int = connection.execute(select(func.max(ids))).scalar_one()
        most = newest - self._rows if self._rows else 0
        old = [row for row, at in found if row <= most or at < self._before]
        self._after, self._kept = found[-1][0], self._kept + len(found) - len(old)
        connection.execute(delete(self._table).where(ids.in_(old)))
        return len(old)


def _prune_work(connection: Connection, limits: PruningLimits, now: int) -> int | None:
    """Requests that are over. A result stays until a caller has read it."""
    ended = work.c.finished_at
    before = now - max(limits.days, WORK_DAYS) * DAY_MS if limits.days else 0
    if limits.rows:
        query = select(ended).where(ended.is_not(None)).order_by(ended.desc()).offset(limits.rows).limit(1)
        last = connection.execute(query).scalar()
        before = max(before, min(last + 1, now - WORK_DAYS * DAY_MS) if last is not None else 0)
    old = select(work.c.request_id).where((ended < before) & (work.c.status != "resulted")).order_by(ended)
    ids = connection.execute(old.limit(STEP_ROWS)).scalars().all()
    connection.execute(delete(work).where(work.c.request_id.in_(ids)))
    return len(ids) or None


def _prune_constraints(connection: Connection, before: int) -> int | None:
    """Constraints that are not in force any more."""
    sets = constraint_sets
    newer = sets.alias()
    mine = newer.c.workspace == sets.c.workspace
    replaced = select(newer.c.version).where(mine & (newer.c.version > sets.c.version))
    old = select(sets.c.workspace, sets.c.version).where((sets.c.created_at < before) & replaced.exists())
    found = connection.execute(old.limit(STEP_ROWS)).all()
    for workspace, version in found:
        connection.execute(delete(sets).where((sets.c.workspace == workspace) & (sets.c.version == version)))
    return len(found) or None


def release_free_pages(connection: Connection) -> None:
    """Give pages that are free back to the file system, some at a time. Only SQLite needs it, and only a database that
    was made for it does it; in another one they are used again."""
    if connection.dialect.name == "sqlite":
        driver: Any = connection.connection.driver_connection
        driver.executescript(f"PRAGMA incremental_vacuum({_FREED_PAGES})")  # `execute` would give back one page
