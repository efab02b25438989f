"""Write one batch of the ledger's rows in one transaction.

Each SQLite step releases the GIL, which the writer's thread shares with the event loop, so commit latency depends on
the number of statements and on the Python between them. Rows are therefore plain values, the text of a statement is
made once, and on SQLite one statement takes many rows.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import Any

import structlog
from sqlalchemy import Connection, bindparam, case, insert, select, update
from sqlalchemy.dialects import postgresql
from sqlalchemy.exc import DataError, IntegrityError
from sqlalchemy.sql.dml import UpdateBase

from ...database import channels, task_results, work, work_audit
from .promotions import Promote, record_promoting
from .waiting_callbacks import fail_excess
from .work import CHANGING_COLUMNS, COLUMNS

Values = tuple[Any, ...]
Row = dict[str, Any]
Batch = dict[str, list[Any]]
"""Rows of one commit by kind of write: Values for `admit` and the keys of `_WRITES`, NewResult for `promoting`."""
Run = Callable[[Callable[[Connection], dict[str, Row]]], dict[str, Row]]
"""Calls the function with a connection, in a transaction of its own."""

log = structlog.get_logger(__name__)
_CHUNK_SIZES = (256, 64, 32, 16, 8, 4, 2, 1)
"""Numbers of rows of a statement; few sizes, so that each is prepared once."""
_MOST_IDS = 500
_REFUSED = (DataError, IntegrityError, ArithmeticError)
"""Errors for a value that the database refuses, or an id that is taken."""


class _Write:
    """One statement, for one row or many."""

    def __init__(self, statement: UpdateBase, names: Iterable[str], sqlite: str) -> None:
        """`names` are those of a row's values. `sqlite` is the statement for SQLite, with `{}` for the rows of VALUES;
        other databases write rows one by one, because columns of VALUES would need types."""
        self._statement = statement
        self._names = tuple(names)
        blank = f"({', '.join('?' * len(self._names))})"
        self._texts = {rows: sqlite.format(", ".join([blank] * rows)) for rows in _CHUNK_SIZES}

    def run(self, connection: Connection, rows: Sequence[Values]) -> None:
        """Write the rows, each with a value for each of the names, in order."""
        if connection.dialect.name != "sqlite":
            connection.execute(self._statement, [dict(zip(self._names, row, strict=True)) for row in rows])
            return
        for some in _pieces(rows):
            connection.exec_driver_sql(self._texts[len(some)], tuple(chain.from_iterable(some)))


def _pieces(rows: Sequence[Values]) -> Iterator[Sequence[Values]]:
    begin = 0
    while begin < len(rows):
        size = next(size for size in _CHUNK_SIZES if size <= len(rows) - begin)
        yield rows[begin : begin + size]
        begin += size


AUDIT = tuple(column.name for column in work_audit.c if column.name != "id")
RESULT = (
    "workspace", "task_id", "principal", "finished_at", "recorded_at", "result", "truncated",
    "delivery", "delivery_url", "delivery_host", "delivery_state", "delivery_next_at", "delivery_error",
)  # fmt: skip
"""Columns of a new result of a task."""
_WORKSPACE = RESULT.index("workspace")
_DELIVERY_STATE = RESULT.index("delivery_state")
_ADMIT = _Write(insert(work), COLUMNS, f"INSERT INTO work ({', '.join(COLUMNS)}) VALUES {{}}")  # noqa: S608
_WRITES = {
    "change": _Write(
        update(work)
        .where(work.c.request_id == bindparam("of"))
        .values({name: bindparam(name) for name in CHANGING_COLUMNS}),
        ("of", *CHANGING_COLUMNS),
        f"UPDATE work SET {', '.join(f'{name} = v.column{at}' for at, name in enumerate(CHANGING_COLUMNS, 2))} "  # noqa: S608  our own names
        "FROM (VALUES {}) AS v WHERE work.request_id = v.column1",
    ),
    "deliver": _Write(
        update(work)
        .where((work.c.request_id == bindparam("of")) & work.c.delivered_at.is_(None))
        .values(
            delivered_at=bindparam("at"), status=case((work.c.status == "resulted", "delivered"), else_=work.c.status)
        ),
        ("of", "at"),
        "UPDATE work SET delivered_at = v.column2, "
        "status = CASE WHEN status = 'resulted' THEN 'delivered' ELSE status END "
        "FROM (VALUES {}) AS v WHERE work.request_id = v.column1 AND work.delivered_at IS NULL",
    ),
    "epochs": _Write(
        update(channels)
        .where((channels.c.workspace == bindparam("of")) & (channels.c.epoch < bindparam("newest")))
        .values(epoch=bindparam("newest")),
        ("of", "newest"),
        "UPDATE channels SET epoch = v.column2 "
        "FROM (VALUES {}) AS v WHERE channels.workspace = v.column1 AND channels.epoch < v.column2",
    ),
    "results": _Write(  # a result that came before has its row
        postgresql.insert(task_results).on_conflict_do_nothing(),
        RESULT,
        f"INSERT INTO task_results ({', '.join(RESULT)}) VALUES {{}} ON CONFLICT DO NOTHING",  # noqa: S608
    ),
    "audit": _Write(insert(work_audit), AUDIT, f"INSERT INTO work_audit ({', '.join(AUDIT)}) VALUES {{}}"),  # noqa: S608
}


def write_batch(run: Run, batch: Batch, promote: Promote) -> dict[str, Row]:
    """Write the batch, and return the existing rows with ids of new work. `promote`: writes what results promote.

    Nearly all ids are new, so they are looked up only when the first try fails. A value that no database takes must
    hold up no other row: at last each row is written by itself, and bad ones are left out.
    """
    for check_known in (False, True):
        with contextlib.suppress(*_REFUSED):
            return run(lambda connection, known=check_known: _apply(connection, batch, promote, check_known=known))
    known: dict[str, Row] = {}
    for kind, rows in batch.items():
        for row in rows:
            one = {kind: [row]}
            try:
                known.update(run(lambda connection, one=one: _apply(connection, one, promote, check_known=True)))
            except _REFUSED as error:
                log.error("work_row_dropped", kind=kind, why=str(error).splitlines()[0])
    return known


def _apply(connection: Connection, batch: Batch, promote: Promote, *, check_known: bool) -> dict[str, Row]:
    """Write the rows. Unless `check_known`, an id that is taken raises IntegrityError."""
    new = batch.get("admit", ())
    known = _existing_rows(connection, new) if check_known else {}
    if fresh := [row for row in new if row[0] not in known]:
        _ADMIT.run(connection, fresh)
    for kind, write in _WRITES.items():
        if rows := batch.get(kind):
            write.run(connection, rows)
    # They come last, because they wait for others who write what teams share.
    promoting = batch.get("promoting", ())
    record_promoting(connection, promoting, RESULT, promote)
    results = [*batch.get("results", ()), *(result.values for result in promoting)]
    fail_excess(connection, {row[_WORKSPACE] for row in results if row[_DELIVERY_STATE] == "pending"})
    return known


def _existing_rows(connection: Connection, rows: Sequence[Values]) -> dict[str, Row]:
    """Return the existing rows with the same ids, by id."""
    known: dict[str, Row] = {}
    ids = [row[0] for row in rows]
    for begin in range(0, len(ids), _MOST_IDS):
        query = select(work).where(work.c.request_id.in_(ids[begin : begin + _MOST_IDS]))
        known.update((row["request_id"], dict(row)) for row in connection.execute(query).mappings())
    return known
