"""The schema that a database must have: the tables, columns and indexes that the migrations make."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable
from contextlib import closing

from ..errors import StartError
from .integrity import part_missing

_PARTS = """
SELECT m.type, m.name, c.name FROM sqlite_master m LEFT JOIN pragma_table_info(m.name) c ON m.type = 'table'
WHERE m.sql IS NOT NULL
"""


def require_parts(connection: sqlite3.Connection, changes: Iterable[Callable[[sqlite3.Connection], None]]) -> None:
    """Compare the schema with that of an empty database after all migrations, which takes 3 ms. Raises StartError for a
    missing part; otherwise the first request that needs it would fail."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as whole:
        whole.row_factory = sqlite3.Row
        for change in changes:
            change(whole)
        expected = [tuple(row) for row in whole.execute(_PARTS)]
    present = {tuple(row) for row in connection.execute(_PARTS)}
    named = {part[:2] for part in present}
    for kind, name, column in expected:
        if (kind, name, column) not in present:
            what = f"no such column: {name}.{column}" if (kind, name) in named else f"no such {kind}: {name}"
            raise StartError(part_missing(what))
