"""The one database: its lock, its schema, its two ways of writing."""

from __future__ import annotations

import asyncio
import sqlite3
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from agent_runtime.errors import BrokenRecord, StartError, StoreError
from agent_runtime.store import Database, Migration, Unit
from agent_runtime.store.reserve import DiskReserve
from agent_runtime.store.writer import MAX_WAITING, DatabaseWriter
from agent_testing import LiveProcess


def create(connection: sqlite3.Connection) -> None:
    connection.execute("CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT NOT NULL UNIQUE)")


FIRST = Migration(1, "notes", create)


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    opened = Database(tmp_path / "a.db", [FIRST])
    opened.open()
    yield opened
    opened.close()


def insert(text: str) -> Unit[int | None]:
    return lambda connection: connection.execute("INSERT INTO notes (text) VALUES (?)", (text,)).lastrowid


async def texts(database: Database) -> list[str]:
    return await database.read(lambda connection: [row[0] for row in connection.execute("SELECT text FROM notes")])


async def test_what_is_written_is_read(database: Database) -> None:
    written = [database.write(insert(f"{n}"), durable=n == 1) for n in range(3)]
    assert await asyncio.gather(*written) == [1, 2, 3]
    assert await texts(database) == ["0", "1", "2"]


@pytest.mark.parametrize(
    ("loss", "missing"),
    [
        ("DROP TABLE notes", "no such table: notes"),
        ("ALTER TABLE notes DROP COLUMN more", "no such column: notes.more"),
        ("DROP INDEX notes_more", "no such index: notes_more"),
    ],
)
def test_what_the_schema_lacks_is_named_at_the_start(tmp_path: Path, loss: str, missing: str) -> None:
    def grow(connection: sqlite3.Connection) -> None:
        connection.execute("ALTER TABLE notes ADD COLUMN more TEXT")
        connection.execute("ALTER TABLE notes ADD COLUMN most TEXT")
        connection.execute("CREATE INDEX notes_more ON notes (most)")

    database = Database(tmp_path / "a.db", [FIRST, Migration(2, "more", grow)])
    database.open()
    database.close()
    with closing(sqlite3.connect(tmp_path / "a.db")) as connection:
        connection.execute(loss)
    with pytest.raises(StartError, match=missing):
        Database(tmp_path / "a.db", [FIRST, Migration(2, "more", grow)]).open()


async def test_the_pragmas(database: Database) -> None:
    def pragmas(connection: sqlite3.Connection) -> list[object]:
        names = ("journal_mode", "synchronous", "busy_timeout", "foreign_keys", "temp_store")
        return [connection.execute(f"PRAGMA {name}").fetchone()[0] for name in names]

    assert await database.write(pragmas) == ["wal", 1, 5000, 1, 2]
    assert await database.write(pragmas, durable=True) == ["wal", 2, 5000, 1, 2]


async def test_a_reader_cannot_write(database: Database) -> None:
    with pytest.raises(sqlite3.OperationalError):
        await database.read(lambda connection: connection.execute("INSERT INTO notes (text) VALUES ('x')"))


async def test_migrations_run_once_and_in_order(tmp_path: Path) -> None:
    def note(number: int) -> Migration:
        return Migration(number, "", lambda connection: connection.execute(f"CREATE TABLE made_{number} (x)") and None)

    for known in ([note(2), note(1)], [note(1), note(2), note(3)]):
        database = Database(tmp_path / "a.db", known)
        database.open()
        database.close()
    with closing(sqlite3.connect(tmp_path / "a.db")) as connection:
        made = [row[0] for row in connection.execute("SELECT name FROM sqlite_master ORDER BY rowid")]
    assert made == ["made_1", "made_2", "made_3"]


def test_a_migration_that_fails_leaves_the_database_as_it_was(tmp_path: Path) -> None:
    def fill(connection: sqlite3.Connection) -> None:
        connection.execute("INSERT INTO notes (text) VALUES ('old')")

    def broken(connection: sqlite3.Connection) -> None:
        connection.execute("ALTER TABLE notes RENAME TO letters")
        connection.execute("UPDATE letters SET text = 'new'")
        connection.execute("NOT SQL")

    def unforeseen(connection: sqlite3.Connection) -> None:
        connection.execute("DROP TABLE notes")
        raise KeyError("title")

    for third, reason in ((broken, "syntax error"), (unforeseen, "title")):
        with pytest.raises(StartError, match=rf"schema version 3 \(third\): .*{reason}.*at version 2"):
            Database(tmp_path / "a.db", [FIRST, Migration(2, "fill", fill), Migration(3, "third", third)]).open()
        with closing(sqlite3.connect(tmp_path / "a.db")) as connection:
            assert connection.execute("PRAGMA user_version").fetchone() == (2,)
            assert connection.execute("SELECT text FROM notes").fetchall() == [("old",)]
    database = Database(tmp_path / "a.db", [FIRST, Migration(2, "fill", fill)])
    database.open()
    database.close()


def test_a_newer_database_is_refused(tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "a.db")
    connection.execute("PRAGMA user_version = 7")
    connection.close()
    database = Database(tmp_path / "a.db", [FIRST])
    for _ in range(2):
        with pytest.raises(StartError, match="schema version 7, this program knows 1"):
            database.open()


def test_what_is_no_database_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.db").write_bytes(b"this is a letter and no database at all " * 50)
    with pytest.raises(StartError, match="is damaged: it is not an SQLite database"):
        Database(tmp_path / "a.db", [FIRST]).open()


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(StartError, match=r"cannot lock .*missing"):
        Database(tmp_path / "missing" / "a.db", [FIRST]).open()


def test_a_second_server_is_refused_until_the_first_one_dies(tmp_path: Path) -> None:
    holder = (
        "import sys, time; from pathlib import Path; from agent_runtime.store import Database;"
        "Database(Path(sys.argv[1]), []).open(); print('open', flush=True); time.sleep(60)"
    )
    with LiveProcess([sys.executable, "-c", holder, str(tmp_path / "a.db")]) as process:
        process.wait_for_output("^open$")
        second = Database(tmp_path / "a.db", [])
        with pytest.raises(StartError, match=r"in use by another server \(process \d+\)"):
            second.open()
        process.kill9()
    second.open()
    second.close()


async def test_a_unit_that_fails_does_not_take_the_others_with_it(database: Database) -> None:
    await database.write(insert("taken"))

    def half(connection: sqlite3.Connection) -> None:
        connection.execute("INSERT INTO notes (text) VALUES ('half')")
        raise ValueError("a bug")

    def no_such_table(connection: sqlite3.Connection) -> None:
        connection.execute("INSERT INTO nowhere VALUES (1)")

    def no_such_row(connection: sqlite3.Connection) -> None:
        connection.blobopen("notes", "text", 4711).close()

    def malformed(connection: sqlite3.Connection) -> None:
        connection.execute("SELECT json_extract('{', '$.a')").fetchone()

    units: list[Unit[Any]] = [insert("a"), half, insert("taken"), no_such_table, no_such_row, malformed, insert("b")]
    written = [database.write(unit, durable=index == 0) for index, unit in enumerate(units)]
    results = await asyncio.gather(*written, return_exceptions=True)
    kinds = [type(result) for result in results]
    refused = sqlite3.OperationalError
    assert kinds == [int, ValueError, sqlite3.IntegrityError, StoreError, refused, BrokenRecord, int]
    assert await texts(database) == ["taken", "a", "b"]
    with pytest.raises(ValueError, match="a bug"):
        await database.write(half)
    assert await texts(database) == ["taken", "a", "b"]


class FullDisk:
    """A connection whose disk fills up in the middle of a batch."""

    def __init__(self, path: Path) -> None:
        self.connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        self.connection.execute("PRAGMA page_size = 512")
        self.connection.execute("CREATE TABLE notes (text TEXT)")
        pages = self.connection.execute("PRAGMA page_count").fetchone()[0]
        self.connection.execute(f"PRAGMA max_page_count = {pages + 1}")


async def test_a_full_disk_fails_the_whole_batch_and_the_next_one_works(tmp_path: Path) -> None:
    disk = FullDisk(tmp_path / "a.db").connection
    writer = DatabaseWriter(
        sqlite3.connect(":memory:", check_same_thread=False), disk, DiskReserve(tmp_path / "reserve")
    )

    def write(size: int) -> Unit[int | None]:
        return lambda connection: connection.execute("INSERT INTO notes VALUES (?)", ("x" * size,)).lastrowid

    written = [writer.submit(write(size), durable=False) for size in (1, 100_000, 1)]
    results = await asyncio.gather(*written, return_exceptions=True)
    assert isinstance(results[1], StoreError)
    assert "full" in str(results[1])
    assert isinstance(await writer.submit(write(1), durable=False), int)
    writer.close()


async def test_a_reader_that_is_opened_late_does_not_wait_for_the_writer(database: Database) -> None:
    writing, done = threading.Event(), threading.Event()

    def slow(connection: sqlite3.Connection) -> None:
        connection.execute("INSERT INTO notes (text) VALUES ('slow')")
        writing.set()
        assert done.wait(60)

    written = database.write(slow)
    try:
        await asyncio.to_thread(writing.wait, 60)
        assert await asyncio.wait_for(database.read(lambda one: one.execute("SELECT 1").fetchone()[0]), 4) == 1
    finally:
        done.set()
        await written


async def test_the_queue_of_the_disk_is_bounded(database: Database) -> None:
    loop, blocked = asyncio.get_running_loop(), asyncio.Event()

    go = threading.Event()

    def wait(connection: sqlite3.Connection) -> None:
        loop.call_soon_threadsafe(blocked.set)
        go.wait(10)

    first = database.write(wait)
    await blocked.wait()
    many = [database.write(lambda _: None) for _ in range(MAX_WAITING)]
    with pytest.raises(StoreError, match="waiting for the disk"):
        await database.write(lambda _: None)
    go.set()
    await asyncio.gather(first, *many)


async def test_a_caller_who_is_gone_does_not_stop_the_write(database: Database) -> None:
    written = database.write(insert("kept"))
    written.cancel()
    await database.write(insert("next"))
    assert await texts(database) == ["kept", "next"]


def test_what_was_handed_in_is_written_before_the_end(tmp_path: Path) -> None:
    """Also when the loop that waits for it is gone."""
    database = Database(tmp_path / "a.db", [FIRST])
    database.open()

    async def hand_in() -> None:
        for number in range(600):
            database.write(insert(str(number)))

    asyncio.run(hand_in())
    database.close()
    with pytest.raises(RuntimeError, match="not open"):
        asyncio.run(hand_in())
    database = Database(tmp_path / "a.db", [FIRST])
    database.open()
    assert len(asyncio.run(texts(database))) == 600
    database.close()
