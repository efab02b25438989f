"""The connection to the database, opened with its schema up to date."""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import Connection, Engine, create_engine, event, make_url
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.pool import ConnectionPoolEntry

from ..errors import StartError
from .migrate import migrate

T = TypeVar("T")
# Else each None of each row is asked in vain whether it can adapt itself, which takes longer than to write it.
sqlite3.register_adapter(type(None), lambda none: none)


class HostDatabase:
    """Runs a function inside one transaction, on a thread, so that the event loop never waits for a disk."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def run(self, work: Callable[[Connection], T]) -> T:
        """Commits what `work` did and returns its value; rolls back when it raises."""
        return await asyncio.to_thread(self.run_sync, work)

    def run_sync(self, work: Callable[[Connection], T]) -> T:
        """The same on the calling thread, for the command line."""
        with self._engine.begin() as connection:
            return work(connection)

    def open_connection(self) -> ConnectionQueue:
        """For somebody who writes all the time, on a thread of his own."""
        return ConnectionQueue(self._engine)

    def close(self) -> None:
        self._engine.dispose()


class ConnectionQueue:
    """One connection that stays. After a failure it is another one. For one thread; `close` it on the same."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._connection: Connection | None = None

    def run(self, work: Callable[[Connection], T]) -> T:
        """Commits what `work` did and returns its value; rolls back when it raises."""
        if self._connection is None:
            self._connection = self._engine.connect()
        try:
            with self._connection.begin():
                return work(self._connection)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


def open_database(url: str) -> HostDatabase:
    """Opens the database and brings its schema up to date.

    Raises StartError: the URL is not one, its driver is not installed, it cannot be opened, or it was made by a
    newer version.
    """
    try:
        engine = _engine(url)
    except (SQLAlchemyError, ImportError) as error:
        raise StartError(f"MESH_DATABASE_URL: {_first_line(error)}") from error
    except OSError as error:
        raise StartError(f"the database cannot be opened: {error.strerror}: {error.filename}") from error
    try:
        migrate(engine)
    except BaseException as error:
        engine.dispose()
        if isinstance(error, SQLAlchemyError):
            raise StartError(f"the database {_redacted_url(url)} cannot be opened: {_first_line(error)}") from error
        raise
    return HostDatabase(engine)


def _engine(url: str) -> Engine:
    parsed = make_url(url)
    if parsed.get_backend_name() != "sqlite":
        return create_engine(parsed, pool_pre_ping=True)
    engine = create_engine(parsed)
    if parsed.database and parsed.database != ":memory:":
        # Nobody but the owner may read tokens; the files that SQLite adds take the mode of this one.
        os.close(os.open(Path(parsed.database), os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600))
    event.listen(engine, "connect", _set_up_sqlite)
    return engine


def _set_up_sqlite(connection: Any, _entry: ConnectionPoolEntry) -> None:
    # The first one has an effect only before the first table is made; what is deleted can then give its room back.
    pragmas = ("auto_vacuum=INCREMENTAL", "journal_mode=WAL", "synchronous=FULL", "busy_timeout=10000")
    for pragma in (*pragmas, "wal_autocheckpoint=4000", "temp_store=MEMORY"):
        connection.execute(f"PRAGMA {pragma}")


def _redacted_url(url: str) -> str:
    return make_url(url).render_as_string(hide_password=True)


def _first_line(error: BaseException) -> str:
    return str(error).splitlines()[0]
