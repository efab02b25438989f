"""The one database of the bots: a file of SQLite. What `run` has returned survives a loss of power."""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Self, TypeVar

from agent_common.errors import StartError

from .schema import MIGRATIONS, Statements

T = TypeVar("T")
NAME = "bots.db"
BUSY_SECONDS = 10.0
"""The longest wait for another process, such as `agent bots pair`, to end its transaction."""


class Database:
    """The database as the event loop uses it: one transaction after the other, in a thread of its own."""

    def __init__(self, connection: sqlite3.Connection, thread: ThreadPoolExecutor) -> None:
        self._connection = connection
        self._thread = thread

    @classmethod
    async def open(cls, path: Path) -> Self:
        """Open the file, made if it is missing. Raises StartError."""
        thread = ThreadPoolExecutor(1, "database")
        try:
            return cls(await asyncio.get_running_loop().run_in_executor(thread, connect, path), thread)
        except BaseException:
            thread.shutdown(wait=False)
            raise

    async def run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run `work` as one transaction: all of its changes are on disk when this returns, or none if it raises. A
        caller that is cancelled meanwhile does not learn which."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, _run, self._connection, work)

    async def foreign_version(self) -> int:
        """Return a number that changes whenever another process has changed the database."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, _data_version, self._connection)

    async def aclose(self) -> None:
        """Finish what has been begun, and close the file."""
        await asyncio.get_running_loop().run_in_executor(self._thread, self._connection.close)
        self._thread.shutdown()


@contextmanager
def opened(path: Path) -> Generator[sqlite3.Connection]:
    """Give a connection to a program that has no event loop. Raises StartError."""
    with closing(connect(path)) as connection:
        yield connection


@contextmanager
def transaction(connection: sqlite3.Connection) -> Generator[None]:
    """Keep all changes of the body of the `with`, or none if it raises."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


@contextmanager
def savepoint(connection: sqlite3.Connection) -> Generator[None]:
    """Within a transaction, keep all changes of the body of the `with`, or none if it raises."""
    connection.execute("SAVEPOINT part")
    try:
        yield
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK TO part")
            connection.execute("RELEASE part")
        raise
    connection.execute("RELEASE part")


def connect(path: Path, migrations: Sequence[Statements] = MIGRATIONS) -> sqlite3.Connection:
    """Open the file, made if it is missing, and bring its tables up to date. Raises StartError."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _own(path)
        connection = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
        try:
            for pragma in ("journal_mode = WAL", "synchronous = FULL", "foreign_keys = ON"):
                connection.execute(f"PRAGMA {pragma}")
            with transaction(connection):
                _migrate(connection, path, migrations)
        except BaseException:
            connection.close()
            raise
    except (OSError, sqlite3.Error) as error:
        reason = (error.strerror or str(error)) if isinstance(error, OSError) else str(error)
        raise StartError(f"{path}: cannot be used as the bots' database: {reason}; see BOTS_DATA_DIR") from error
    return connection


def _own(path: Path) -> None:
    """Make the file, and keep it from other users: SQLite gives the files beside it the same mode."""
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        os.fchmod(file, 0o600)
    finally:
        os.close(file)


def _migrate(connection: sqlite3.Connection, path: Path, migrations: Sequence[Statements]) -> None:
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    if version > len(migrations):
        known = f"has version {version}, and this program knows {len(migrations)} at most"
        raise StartError(f"{path}: {known}; run the newer program, or move the file away")
    for statements in migrations[version:]:
        for statement in statements:
            connection.execute(statement)
    connection.execute(f"PRAGMA user_version = {len(migrations)}")


def _run(connection: sqlite3.Connection, work: Callable[[sqlite3.Connection], T]) -> T:
    with transaction(connection):
        return work(connection)


def _data_version(connection: sqlite3.Connection) -> int:
    return connection.execute("PRAGMA data_version").fetchone()[0]
