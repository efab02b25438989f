"""Release the space of deleted rows in the file."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable

_AT_ONCE = 20
_INCREMENTAL = 2


def release_free_pages(connection: sqlite3.Connection, out_of_time: Callable[[], bool]) -> bool:
    """Return free pages to the file system until time is over. Returns whether there are more. A part of a unit of
    work.

    A database made by an older version cannot release pages; it reuses them.
    """
    if connection.execute("PRAGMA auto_vacuum").fetchone()[0] != _INCREMENTAL:
        return False
    while connection.execute("PRAGMA freelist_count").fetchone()[0]:
        if out_of_time():
            return True
        connection.execute(f"PRAGMA incremental_vacuum({_AT_ONCE})").fetchall()  # one row per page
    return False
