"""Open the one SQLite file: lock, pragmas, migrations, one writer thread, and parallel readers."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import sqlite3
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError

from agent_common.telemetry import logger

from ..errors import StartError, StoreError
from .integrity import broken_record_error, check_database_file, damaged_error, is_broken, is_damage, is_unreadable
from .reserve import DiskReserve
from .shape import require_parts
from .writer import DatabaseWriter, Unit

log = logger(__name__)
T = TypeVar("T")
READERS = 2


@dataclass(frozen=True, slots=True)
class Migration:
    """One numbered change of the schema. Numbers are never reused, and a released migration is never edited."""

    number: int
    name: str
    apply: Callable[[sqlite3.Connection], None]


class Database:
    """The database of one runtime: call `open()` first and `close()` last."""

    def __init__(self, path: Path, migrations: Sequence[Migration]) -> None:
        self.path = path
        self._migrations = sorted(migrations, key=lambda migration: migration.number)
        self.reserve = DiskReserve(path.with_name(path.name + ".reserve"))
        self._lock_fd = -1
        self._local = threading.local()
        self._readers = ThreadPoolExecutor(READERS, thread_name_prefix="store-reader")
        self._long_reader = ThreadPoolExecutor(1, thread_name_prefix="store-long-reader")
        self._reading: list[sqlite3.Connection] = []
        self._writer: DatabaseWriter | None = None
        self._damaged = False
        """Whether a reader has found damage."""

    @property
    def commits(self) -> int:
        """Number of transactions written by this process; if it is unchanged, so is the data."""
        return self._writer.commits if self._writer else 0

    def open(self) -> None:
        """Take the lock, check the file and migrate the schema. Raises StartError with the reason, and with
        instructions if the file is damaged."""
        if self.path.is_dir():
            raise StartError(f"{self.path} is a folder and should be the database, a file: move it aside")
        unclean = self._lock()
        with contextlib.ExitStack() as undo:
            undo.callback(self._unlock)
            try:
                if self.reserve.is_low:
                    self.reserve.release()
                check_database_file(self.path, unclean=unclean)
                os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
                self.path.chmod(0o600)  # the log beside it takes the same mode
                normal = undo.enter_context(contextlib.closing(_connect(self.path, "NORMAL")))
                self._migrate(normal)
                self._writer = DatabaseWriter(_connect(self.path, "FULL"), normal, self.reserve)
            except sqlite3.DatabaseError as error:
                if is_damage(error):
                    raise damaged_error(self.path, error) from error
                raise StartError(f"{self.path} cannot be opened as a database: {error}") from error
            except OSError as error:
                why = f"cannot be written by user {os.geteuid()}: {error.strerror}; give it to this user"
                raise StartError(f"{error.filename or self.path} {why}") from error
            undo.pop_all()

    def write(self, unit: Unit[T], *, durable: bool = False) -> asyncio.Future[T]:
        """Commit a unit of work after everything submitted before it. A durable one survives a power failure."""
        if self._writer is None:
            raise RuntimeError("the database is not open")
        return self._writer.submit(unit, durable=durable)

    async def read_long(self, unit: Unit[T]) -> T:
        """Read as `read` does, but in a separate thread for long reads, so that others need not wait."""
        return await self._run(self._long_reader, unit)

    async def read(self, unit: Unit[T]) -> T:
        """Run a reading unit on a separate connection, which sees all committed writes. Raises StoreError if the disk
        fails, and any exception of the unit."""
        return await self._run(self._readers, unit)

    async def _run(self, readers: ThreadPoolExecutor, unit: Unit[T]) -> T:
        try:
            return await asyncio.get_running_loop().run_in_executor(readers, lambda: unit(self._reader()))
        except sqlite3.Error as error:
            if is_broken(error):
                raise broken_record_error(error) from error
            if not is_unreadable(error):
                raise
            self._damaged = self._damaged or is_damage(error)
            raise StoreError(f"the database refused: {error}") from error
        except ValidationError:
            raise
        except (ValueError, LookupError, TypeError, AttributeError) as error:  # a row with unexpected content
            log.error("a row cannot be read", exc_info=error)
            raise broken_record_error(error) from error

    def close(self) -> None:
        """Finish the writes, then close the file and release the lock."""
        clean = False
        if self._writer is not None:
            self._writer.close()
            clean = not (self._damaged or self._writer.damaged)
            self._writer = None
        self._readers.shutdown(wait=True)
        self._long_reader.shutdown(wait=True)
        for connection in self._reading:
            connection.close()
        self._unlock(clean=clean)

    def _reader(self) -> sqlite3.Connection:
        connection: sqlite3.Connection | None = getattr(self._local, "connection", None)
        if connection is None:
            connection = _connect(self.path, "NORMAL")
            connection.execute("PRAGMA query_only = ON")
            self._local.connection = connection
            self._reading.append(connection)
        return connection

    def _lock(self) -> bool:
        """Lock the data directory for one server. The kernel releases the lock when its holder ends in any way.

        The holder's process id stays in the file unless it ended cleanly. Returns whether there was one.
        """
        path = self.path.with_name(self.path.name + ".lock")
        try:
            self._lock_fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            fcntl.flock(self._lock_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            holder = os.pread(self._lock_fd, 32, 0)
            os.pwrite(self._lock_fd, f"{os.getpid():<32}".encode(), 0)
            os.fdatasync(self._lock_fd)  # a power failure must not look like a clean end
        except BlockingIOError:
            holder = os.read(self._lock_fd, 32).decode().strip() or "unknown"
            self._unlock()
            raise StartError(f"{self.path.parent} is in use by another server (process {holder})") from None
        except OSError as error:
            self._unlock()
            raise StartError(f"cannot lock {path}: {error.strerror}") from error
        return bool(holder.strip())

    def _unlock(self, *, clean: bool = False) -> None:
        if self._lock_fd >= 0:
            if clean:
                os.ftruncate(self._lock_fd, 0)
            os.close(self._lock_fd)
            self._lock_fd = -1

    def _migrate(self, connection: sqlite3.Connection) -> None:
        found: int = connection.execute("PRAGMA user_version").fetchone()[0]
        newest = self._migrations[-1].number if self._migrations else 0
        is_new = found == 0
        if found > newest:
            raise StartError(
                f"{self.path} has schema version {found}, this program knows {newest}: "
                "start a newer program or restore an older database"
            )
        for migration in self._migrations:
            if migration.number > found:
                try:
                    _apply(connection, migration)
                except Exception as error:  # a bug of ours, or an unexpected row
                    if is_damage(error):
                        raise
                    raise StartError(
                        f"{self.path} could not be brought to schema version {migration.number} ({migration.name}): "
                        f"{error}. It is as it was, at version {found}"
                    ) from error
                found = migration.number
        if not is_new:
            require_parts(connection, (migration.apply for migration in self._migrations))


def _apply(connection: sqlite3.Connection, migration: Migration) -> None:
    """Apply a migration and its version number in one transaction."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        migration.apply(connection)
        connection.execute(f"PRAGMA user_version = {migration.number:d}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _connect(path: Path, synchronous: str) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, cached_statements=256)
    if connection.execute("PRAGMA page_count").fetchone()[0] == 0:  # only possible in an empty file
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute(f"PRAGMA synchronous = {synchronous}")
    connection.execute("PRAGMA busy_timeout = 5000")
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute("PRAGMA temp_store = MEMORY")  # otherwise savepoints write temporary files
    connection.row_factory = sqlite3.Row
    connection.text_factory = _decode
    return connection


def _decode(data: bytes) -> str:
    """Return a text of the file. Bytes that are no UTF-8, which other programs can write, become surrogates: the reader
    of a row finds it broken, and no query fails for one row."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data.decode(errors="surrogateescape")
