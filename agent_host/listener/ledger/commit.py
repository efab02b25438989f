"""Write one batch in one transaction, on the writer's thread."""

from __future__ import annotations

from collections.abc import Callable

import structlog
from sqlalchemy import Connection
from sqlalchemy.exc import DataError, IntegrityError

from . import sql
from .commit_batch import CommitBatch, Row

Run = Callable[[Callable[[Connection], dict[str, Row]]], dict[str, Row]]
"""Calls the function with a connection, in a transaction of its own."""
log = structlog.get_logger(__name__)
_REFUSED = (DataError, IntegrityError, ArithmeticError)
"""The database does not take a value, or has the id already."""


def write_batch(run: Run, batch: CommitBatch) -> dict[str, Row]:
    """Write the batch, and return the rows that had the ids of new work before.

    Nearly all ids are new, so they are looked up only when the first try fails.
    """
    try:
        return run(lambda connection: _apply(connection, batch))
    except _REFUSED:
        pass
    try:
        return run(lambda connection: _apply(connection, batch, check_known=True))
    except _REFUSED:
        return _commit_singly(run, batch)


def _commit_singly(run: Run, batch: CommitBatch) -> dict[str, Row]:
    """Write each row by itself and leave out bad ones: a value that no database takes must hold up no other row."""
    known: dict[str, Row] = {}
    for name in ("admit", "change", "deliver", "audit", "epochs"):
        for row in getattr(batch, name):
            one = CommitBatch(**{name: [row]})
            try:
                known.update(run(lambda connection, one=one: _apply(connection, one, check_known=True)))
            except _REFUSED as error:
                log.error("work_row_dropped", kind=name, why=str(error).splitlines()[0])
    return known


def _apply(connection: Connection, batch: CommitBatch, *, check_known: bool = False) -> dict[str, Row]:
    """Write the rows. Unless `check_known`, an id that is taken raises IntegrityError."""
    known = sql.existing_rows(connection, batch.admit) if check_known else {}
    if fresh := [row for row in batch.admit if row[0] not in known]:
        sql.insert_work(connection, fresh)
    for rows, write in (
        (batch.change, sql.update_work),
        (batch.deliver, sql.mark_delivered),
        (batch.epochs, sql.raise_epochs),
    ):
        if rows:
            write(connection, rows)
    sql.insert_audit(connection, batch.audit)
    return known
