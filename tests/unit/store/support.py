"""A small database of notes."""

from __future__ import annotations

import sqlite3
from collections.abc import Generator
from contextlib import closing, contextmanager
from pathlib import Path

from agent_runtime.store import Database, Migration, Unit


def create(connection: sqlite3.Connection) -> None:
    connection.execute("CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT NOT NULL)")


NOTES = (Migration(1, "notes", create),)


@contextmanager
def opened(path: Path) -> Generator[Database]:
    database = Database(path, NOTES)
    database.open()
    try:
        yield database
    finally:
        database.close()


def filled(path: Path, rows: int = 200, size: int = 1000) -> Path:
    """A database that was closed cleanly, with that many notes."""
    with opened(path), closing(sqlite3.connect(path)) as connection:
        connection.executemany("INSERT INTO notes (text) VALUES (?)", (("x" * size,) for _ in range(rows)))
        connection.commit()
    return path


def insert(text: str) -> Unit[None]:
    def unit(connection: sqlite3.Connection) -> None:
        connection.execute("INSERT INTO notes (text) VALUES (?)", (text,))

    return unit


def texts(path: Path) -> list[str]:
    """The notes in a file, once it has been found sound."""
    with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
        return [row[0] for row in connection.execute("SELECT text FROM notes ORDER BY id")]


def overwrite(path: Path, start: int, data: bytes = b"\xa5" * 4096) -> None:
    """Damages a file in place; from the end when `start` is negative."""
    with path.open("r+b") as file:
        file.seek(start, 2 if start < 0 else 0)
        file.write(data)
