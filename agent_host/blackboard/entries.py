"""Read entries and their history."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pydantic_core import from_json, to_json  # noqa: TID251  our own rows
from sqlalchemy import BindParameter, ColumnElement, Connection, Row, bindparam, select

from agent_common.page_size import PageSize

from ..database import blackboard_changes, blackboard_entries, blackboards, end_of_prefix
from ..errors import NotFound

_ROWS_AT_ONCE = 64


@dataclass(frozen=True, slots=True)
class Page:
    """Rows, and where the next page goes on."""

    rows: list[Row[Any]]
    next: str | None
    position: int = 0
    """Number of the latest change before the page was read."""


def render_entry(row: Row[Any]) -> bytes:
    """Return an Entry as JSON, with the value as it is stored."""
    head = to_json({"key": row.key})[:-1]
    rest = {"version": row.version, "updated_at": row.updated_at, "updated_by": row.updated_by}
    if row.expires_at is not None:
        rest["expires_at"] = row.expires_at
    return _join(head, row, to_json(rest)[1:-1])


def render_change(row: Row[Any]) -> bytes:
    """Return a Change as JSON."""
    head = to_json({"kind": row.kind, "key": row.key})[:-1]
    rest = {"version": row.version, "updated_at": row.at, "updated_by": row.by}
    return _join(head, row, to_json(rest)[1:-1])


def _join(head: bytes, row: Row[Any], rest: bytes) -> bytes:
    value = b"null" if row.value is None else row.value.encode()
    return b'%b,"value":%b,"cause":%b,%b}' % (head, value, row.cause.encode(), rest)


def value_of(row: Row[Any] | None) -> Any:
    """Return the value of an entry; None if there is none."""
    return None if row is None or row.value is None else from_json(row.value)


def is_live(now: int | BindParameter[int]) -> ColumnElement[bool]:
    """Match entries that are neither deleted nor expired."""
    expires = blackboard_entries.c.expires_at
    return blackboard_entries.c.value.is_not(None) & (expires.is_(None) | (expires > now))


# Built once: building a statement takes several times as long as running it.
ROW_OF_KEY = select(blackboard_entries).where(
    (blackboard_entries.c.team == bindparam("team")) & (blackboard_entries.c.key == bindparam("key"))
)
"""The row of a key, also of a deleted entry, by `team` and `key`."""
_ENTRY = ROW_OF_KEY.where(is_live(bindparam("now")))


def read_entry(connection: Connection, team: str, key: str, now: int) -> Row[Any]:
    """Return the entry. Raises NotFound."""
    row = connection.execute(_ENTRY, {"team": team, "key": key, "now": now}).first()
    if row is None:
        raise NotFound(f"there is no entry {key!r}")
    return row


def list_entries(connection: Connection, team: str, prefix: str, after: str | None, limit: int, now: int) -> Page:
    """Return entries by key, from the first that begins with the prefix and follows `after`."""
    position = newest_change(connection, team)  # read before the entries: what is newer, a watcher gets again
    keys = blackboard_entries.c.key
    end = end_of_prefix(prefix)
    query = select(blackboard_entries).where((blackboard_entries.c.team == team) & (keys >= prefix) & is_live(now))
    if end is not None:
        query = query.where(keys < end)
    if after is not None:
        query = query.where(keys > after)
    found, more = _fill(connection, query.order_by(keys).limit(limit + 1), limit)
    return Page(found, found[-1].key if more else None, position)


def read_history(connection: Connection, team: str, key: str, before: int | None, limit: int) -> Page:
    """Return the changes of a key, the newest first, those below the version `before`: none if the log keeps none of an
    entry any more. Raises NotFound if there is no entry either."""
    table = blackboard_changes
    query = select(table).where((table.c.team == team) & (table.c.key == key))
    if before is not None:
        query = query.where(table.c.version < before)
    found, more = _fill(connection, query.order_by(table.c.version.desc()).limit(limit + 1), limit)
    if not found and before is None:
        row = connection.execute(ROW_OF_KEY, {"team": team, "key": key}).first()
        if row is None or row.value is None:
            raise NotFound(f"there is no entry {key!r}")
    return Page(found, str(found[-1].version) if more else None)


def newest_change(connection: Connection, team: str) -> int:
    """Return the number of the team's latest change."""
    return connection.execute(select(blackboards.c.newest).where(blackboards.c.team == team)).scalar() or 0


def _fill(connection: Connection, query: Any, limit: int) -> tuple[list[Row[Any]], bool]:
    """Return the rows of a page, and whether there are more. It ends early where values are large."""
    found: list[Row[Any]] = []
    size = PageSize()
    with connection.execute(query, execution_options={"yield_per": _ROWS_AT_ONCE}) as rows:
        for row in rows:
            if len(found) == limit or size.is_full:
                return found, True
            found.append(row)
            size.add(row.value)
    return found, False
