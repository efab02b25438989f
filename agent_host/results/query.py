"""Read results: a page, the newest first, or the one of a task."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, Select, func, or_, select

from agent_common.page_size import PageSize

from ..access import UserSet
from ..database import HostDatabase, task_results

_ROWS_AT_ONCE = 16


@dataclass(frozen=True, slots=True)
class ResultQuery:
    """Which results. None: all of them."""

    workspaces: Collection[str] | None = None
    users: UserSet | None = None
    task_id: str | None = None
    after: int | None = None
    """Only those that were recorded before the one with this number."""
    limit: int = 100


@dataclass(frozen=True, slots=True)
class FoundResults:
    """A page of rows."""

    rows: list[Row[Any]]
    next: int | None = None
    """The number of its last row, if there are more."""


async def read_results(database: HostDatabase, query: ResultQuery) -> FoundResults:
    """Return a page of results, the newest first."""
    return await database.run(lambda connection: _read_page(connection, query))


def _read_page(connection: Connection, query: ResultQuery) -> FoundResults:
    """Read rows until the page is full: a hostile agent may have filled each with a megabyte. One more row says whether
    there is a next page."""
    found: list[Row[Any]] = []
    size = PageSize()
    with connection.execute(_select(query), execution_options={"yield_per": _ROWS_AT_ONCE}) as rows:
        for row in rows:
            if len(found) == query.limit or size.is_full:
                return FoundResults(found, found[-1].id)
            found.append(row)
            size.add(row.result)
    return FoundResults(found)


async def read_workspaces(database: HostDatabase, query: ResultQuery) -> list[str]:
    """Return the workspaces whose results the query matches, at most two."""
    found = _narrowed(select(task_results.c.workspace).distinct().order_by(task_results.c.workspace).limit(2), query)
    return await database.run(lambda connection: list(connection.execute(found).scalars()))


def _select(query: ResultQuery) -> Select[Any]:
    return _narrowed(select(task_results).order_by(task_results.c.id.desc()).limit(query.limit + 1), query)


def _narrowed(found: Select[Any], query: ResultQuery) -> Select[Any]:
    table = task_results
    if query.workspaces is not None:
        found = found.where(table.c.workspace.in_(query.workspaces))
    if query.users is not None:
        found = found.where(_is_of(query.users))
    if query.task_id is not None:
        found = found.where(table.c.task_id == query.task_id)
    if query.after is not None:
        found = found.where(table.c.id < query.after)
    return found


def _is_of(users: UserSet) -> ColumnElement[bool]:
    """Match the users' rows. Prefixes are compared exactly; LIKE of SQLite would ignore case."""
    principal = task_results.c.principal
    begins = (func.substr(principal, 1, len(prefix)) == prefix for prefix in users.prefixes)
    return or_(principal.in_(users.names), *begins)
