"""Open the database, upgrade its schema, and run transactions."""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from threading import Condition
from typing import Any, TypeVar

from sqlalchemy import Connection, Engine, create_engine, event, make_url
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.pool import ConnectionPoolEntry

from agent_common.redaction import redacted_url

from ..errors import StartError
from .migrate import migrate

T = TypeVar("T")
_CLOSE_SECONDS = 10.0
# Without this, sqlite3 looks up an adapter for each None of each row, which takes longer than writing it.
sqlite3.register_adapter(type(None), lambda none: none)


class HostDatabase:
    """Runs functions in transactions, on a thread so that the event loop never waits for the disk."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._running = 0
        self._changed = Condition()

    async def run(self, work: Callable[[Connection], T]) -> T:
        """Run `work`, commit, and return its value. Roll back if it raises."""
        return await asyncio.to_thread(self.run_sync, work)

    def run_sync(self, work: Callable[[Connection], T]) -> T:
        """Do the same as `run` on the calling thread, for the command line."""
        with self._counted(), self._engine.begin() as connection:
            return work(connection)

    @contextmanager
    def _counted(self) -> Generator[None]:
        with self._changed:
            self._running += 1
        try:
            yield
        finally:
            with self._changed:
                self._running -= 1
                self._changed.notify_all()

    @property
    def is_shared(self) -> bool:
        """Whether several hosts may have it: it is on a PostgreSQL server."""
        return self._engine.dialect.name == "postgresql"

    def open_connection(self) -> ConnectionQueue:
        """Return a connection for a writer that has its own thread."""
        return ConnectionQueue(self._engine)

    def listen(self, channel: str) -> Any:
        """Return a connection of its own to PostgreSQL, by psycopg, which hears what is notified on a channel."""
        fairy = self._engine.raw_connection()
        connection: Any = fairy.driver_connection
        fairy.detach()
        try:
            connection.autocommit = True
            connection.execute(f"LISTEN {channel}")
        except BaseException:
            connection.close()
            raise
        return connection

    def close(self) -> None:
        """Let go of all connections. What still runs, because nobody waits for it any more, may end first."""
        with self._changed:
            self._changed.wait_for(lambda: not self._running, _CLOSE_SECONDS)
        self._engine.dispose()


class ConnectionQueue:
    """A connection that is kept between transactions and replaced after a failure. Use and close it on one thread."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._connection: Connection | None = None

    def run(self, work: Callable[[Connection], T]) -> T:
        """Run `work`, commit, and return its value. Roll back if it raises."""
        if self._connection is None:
            self._connection = self._engine.connect()
        try:
            with self._connection.begin():
                return work(self._connection)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        connection = self._connection
        self._connection = None
        if connection is not None:
            connection.close()


def open_database(url: str) -> HostDatabase:
    """Open the database and upgrade its schema.

    Raises StartError if the URL is invalid, its driver is not installed, the database cannot be opened, or a newer
    version has created it.
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
            raise StartError(f"the database {_shown_url(url)} cannot be opened: {_first_line(error)}") from error
        raise
    return HostDatabase(engine)


def sqlite_file(url: str) -> Path | None:
    """Return the file of an SQLite database; None if another engine has it. Raises StartError if the URL is invalid."""
    try:
        parsed = make_url(url)
    except SQLAlchemyError as error:
        raise StartError(f"MESH_DATABASE_URL: {_first_line(error)}") from error
    return Path(parsed.database) if parsed.get_backend_name() == "sqlite" and parsed.database else None


def _engine(url: str) -> Engine:
    parsed = make_url(url)
    # Parameters are hidden in errors, because rows hold keys and secrets, and errors are logged.
    if parsed.get_backend_name() != "sqlite":
        return create_engine(parsed, pool_pre_ping=True, hide_parameters=True)
    engine = create_engine(parsed, hide_parameters=True)
    if parsed.database and parsed.database != ":memory:":
        # Only the owner may read the database, which holds tokens. SQLite gives its other files the same mode.
        os.close(os.open(Path(parsed.database), os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600))
    event.listen(engine, "connect", _set_up_sqlite)
    return engine


def _set_up_sqlite(connection: Any, _entry: ConnectionPoolEntry) -> None:
    # `auto_vacuum` has an effect only before the first table is created; it lets the file shrink after deletions.
    pragmas = ("auto_vacuum=INCREMENTAL", "journal_mode=WAL", "synchronous=FULL", "busy_timeout=10000")
    for pragma in (*pragmas, "wal_autocheckpoint=4000", "temp_store=MEMORY"):
        connection.execute(f"PRAGMA {pragma}")


def _shown_url(url: str) -> str:
    """Return the URL for an error. SQLAlchemy escapes what a password may hold, such as a slash, first."""
    return redacted_url(make_url(url).render_as_string())


def _first_line(error: BaseException) -> str:
    return str(error).splitlines()[0]
