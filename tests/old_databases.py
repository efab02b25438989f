"""Databases that earlier versions of the product wrote, with their times moved to the present.

A fixture holds moments: when a message was written, when a work request expires. Opened as it is, it would grow older
with each day, until the product rightly drops what it holds.
"""

from __future__ import annotations

import gzip
import re
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

Value = str | bytes | int | float | None
"""A value of SQLite."""
FIXTURES = Path(__file__).parent / "fixtures"
_DAY_MS = 86_400_000
_NEAR_MS = 400 * _DAY_MS
"""What is further than this from the moment a fixture was written is no time."""
_WRITTEN = {"at", "created_at", "updated_at", "submitted_at", "finished_at"}
_TIME = re.compile(r"(?<![\w.])\d{13}(?![\w.])|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z")


def open_old_database(fixture: str, database: Path, *, age: timedelta) -> None:
    """Write the fixture (`.sql`, or a gzipped database) to a file, as if the old program had stopped `age` ago."""
    written = FIXTURES / fixture
    if written.suffix == ".gz":
        database.write_bytes(gzip.decompress(written.read_bytes()))
    with closing(sqlite3.connect(database)) as connection:
        if written.suffix == ".sql":
            connection.executescript(written.read_text())
        tables = _tables(connection)
        stopped = _newest_write(connection, tables)
        now = int((time.time() - age.total_seconds()) * 1000)
        connection.create_function("moved", 1, _mover(stopped, by=now - stopped), deterministic=True)
        for table, columns in tables.items():
            changes = ", ".join(f'"{column}" = moved("{column}")' for column in columns)
            connection.execute(f'UPDATE "{table}" SET {changes}')  # noqa: S608
        connection.commit()


def _tables(connection: sqlite3.Connection) -> dict[str, list[str]]:
    """Return the columns of each table of the product, without those that full-text search keeps for itself."""
    own = "type = 'table' AND name NOT GLOB '*index*' AND name NOT GLOB 'sqlite_*'"
    names = [name for (name,) in connection.execute(f"SELECT name FROM sqlite_master WHERE {own}")]  # noqa: S608
    return {name: [row[1] for row in connection.execute(f'PRAGMA table_info("{name}")')] for name in names}


def _newest_write(connection: sqlite3.Connection, tables: dict[str, list[str]]) -> int:
    """Return the newest moment at which a row was written, in ms since the epoch."""
    newest = 0
    for table, columns in tables.items():
        for column in _WRITTEN & set(columns):
            (at,) = connection.execute(f'SELECT max("{column}") FROM "{table}"').fetchone()  # noqa: S608
            newest = max(newest, at or 0)
    return newest


def _mover(near: int, by: int) -> Callable[[Value], Value]:
    def is_time(ms: int) -> bool:
        return abs(ms - near) < _NEAR_MS

    def in_text(found: re.Match[str]) -> str:
        text = found[0]
        if text.isdigit():
            return str(int(text) + by) if is_time(int(text)) else text
        at = datetime.fromisoformat(text)
        if not is_time(int(at.timestamp() * 1000)):
            return text
        moved = (at + timedelta(milliseconds=by)).astimezone(UTC)
        return moved.isoformat(timespec="milliseconds").replace("+00:00", "Z")

    def move(value: Value) -> Value:
        if isinstance(value, int) and is_time(value):
            return value + by
        return _TIME.sub(in_text, value) if isinstance(value, str) else value

    return move
