"""SQL of the ledger, compiled once per database.

Each SQLite step releases the GIL, which the writer's thread shares with the event loop, so commit latency depends on
the number of statements and on the Python between them. Statements are therefore compiled by SQLAlchemy once and kept
as text, rows are plain values, and on SQLite one statement takes many rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any, TypeVar

from sqlalchemy import Connection, Dialect, Table, bindparam, case, insert, select, update
from sqlalchemy.sql.dml import UpdateBase

from ...database import channels, work, work_audit
from .work import CHANGING_COLUMNS, COLUMNS

Values = tuple[Any, ...]
T = TypeVar("T")
_CHUNK_SIZES = (256, 64, 32, 16, 8, 4, 2, 1)
"""How many rows a statement takes; few sizes, so that each is prepared once."""
_MOST_IDS = 500


class _Change:
    """Changes rows: many with one statement on SQLite; elsewhere one by one, as columns of VALUES would need types."""

    def __init__(self, statement: UpdateBase, names: Sequence[str], table: str, sets: str, where: str) -> None:
        """`names`: of the values of a row. `sets` and `where` call the first of them `v.column1`."""
        self._statement, self._names = statement, tuple(names)
        blank = f"({', '.join('?' * len(self._names))})"
        self._texts = {
            rows: f"UPDATE {table} SET {sets} FROM (VALUES {', '.join([blank] * rows)}) AS v WHERE {where}"  # noqa: S608  our own names
            for rows in _CHUNK_SIZES
        }

    def run(self, connection: Connection, rows: Sequence[Values]) -> None:
        """Change the rows. Each has a value for each of the names, in their order."""
        if connection.dialect.name != "sqlite":
            connection.execute(self._statement, [dict(zip(self._names, row, strict=True)) for row in rows])
            return
        for some in _pieces(rows):
            values = tuple(chain.from_iterable(some))
            connection.exec_driver_sql(self._texts[len(some)], values)


class _Insert:
    """Inserts rows; each has a value for each of the columns, in their order."""

    def __init__(self, table: Table, columns: Sequence[str]) -> None:
        """Raises ValueError if the columns are not in the table's order, which the compiler uses."""
        self._table, self.columns = table, tuple(columns)
        if self.columns != tuple(column.name for column in table.c if column.name in columns):
            raise ValueError(f"the columns of {table.name} are in another order")
        self._made: dict[tuple[str, int], str] = {}

    def run(self, connection: Connection, rows: Sequence[Values]) -> None:
        if not connection.dialect.positional:
            connection.execute(insert(self._table), [dict(zip(self.columns, row, strict=True)) for row in rows])
            return
        for some in _pieces(rows):
            values = tuple(chain.from_iterable(some))
            connection.exec_driver_sql(self._text(connection.dialect, len(some)), values)

    def _text(self, dialect: Dialect, rows: int) -> str:
        text = self._made.get((dialect.name, rows))
        if text is None:
            blank = [dict.fromkeys(self.columns)] * rows
            text = str(insert(self._table).inline().values(blank).compile(dialect=dialect))
            self._made[dialect.name, rows] = text
        return text


def _pieces(rows: Sequence[T]) -> Iterator[Sequence[T]]:
    begin = 0
    while begin < len(rows):
        size = next(size for size in _CHUNK_SIZES if size <= len(rows) - begin)
        yield rows[begin : begin + size]
        begin += size


AUDIT = tuple(column.name for column in work_audit.c if column.name != "id")
_INSERT = _Insert(work, COLUMNS)
_AUDIT = _Insert(work_audit, AUDIT)
_UPDATE = _Change(
    update(work)
    .where(work.c.request_id == bindparam("of"))
    .values({name: bindparam(name) for name in CHANGING_COLUMNS}),
    ("of", *CHANGING_COLUMNS),
    "work",
    ", ".join(f"{name} = v.column{place}" for place, name in enumerate(CHANGING_COLUMNS, 2)),
    "work.request_id = v.column1",
)
_DELIVER = _Change(
    update(work)
    .where((work.c.request_id == bindparam("of")) & work.c.delivered_at.is_(None))
    .values(delivered_at=bindparam("at"), status=case((work.c.status == "resulted", "delivered"), else_=work.c.status)),
    ("of", "at"),
    "work",
    "delivered_at = v.column2, status = CASE WHEN status = 'resulted' THEN 'delivered' ELSE status END",
    "work.request_id = v.column1 AND work.delivered_at IS NULL",
)
_EPOCH = _Change(
    update(channels)
    .where((channels.c.workspace == bindparam("of")) & (channels.c.epoch < bindparam("newest")))
    .values(epoch=bindparam("newest")),
    ("of", "newest"),
    "channels",
    "epoch = v.column2",
    "channels.workspace = v.column1 AND channels.epoch < v.column2",
)


def existing_rows(connection: Connection, rows: Sequence[Values]) -> dict[str, dict[str, Any]]:
    """The rows in the table with the same ids, by id."""
    known: dict[str, dict[str, Any]] = {}
    ids = [row[0] for row in rows]
    for begin in range(0, len(ids), _MOST_IDS):
        query = select(work).where(work.c.request_id.in_(ids[begin : begin + _MOST_IDS]))
        known.update((row["request_id"], dict(row)) for row in connection.execute(query).mappings())
    return known


def insert_work(connection: Connection, rows: Sequence[Values]) -> None:
    """Insert rows with a value for each of COLUMNS. Raises IntegrityError when an id is taken."""
    _INSERT.run(connection, rows)


def update_work(connection: Connection, rows: Sequence[Values]) -> None:
    """Change rows: the id, and a value for each of CHANGING_COLUMNS."""
    _UPDATE.run(connection, rows)


def mark_delivered(connection: Connection, rows: Sequence[Values]) -> None:
    """Store that callers have read the ends of requests: the id, and when."""
    _DELIVER.run(connection, rows)


def insert_audit(connection: Connection, rows: Sequence[Values]) -> None:
    """Insert rows with a value for each of AUDIT."""
    _AUDIT.run(connection, rows)


def raise_epochs(connection: Connection, rows: Sequence[Values]) -> None:
    """Store newest epochs: the workspace, and its epoch. An epoch never goes down."""
    _EPOCH.run(connection, rows)
