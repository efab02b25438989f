"""Make complete copies of the database while the server runs, in the folder `backups` beside it."""

from __future__ import annotations

import contextlib
import fcntl
import filecmp
import os
import re
import shutil
import sqlite3
import threading
from collections.abc import Generator
from datetime import UTC, datetime
from pathlib import Path

from agent_common import disk

from ..errors import StoreError

KEPT = 2
"""Backups that are kept: the newest and the one before, in case damage was not noticed at once."""
HEADROOM = 16 * 1024 * 1024
"""Bytes that must stay free, because a backup must not fill the disk of a running server."""
_NAME = re.compile(r"agent-(\d+)-\d{8}T\d{6}Z\.db")
_DRAFT = ".{}.partial"


def backup_folder(database: Path) -> Path:
    """Return the folder of a database's backups."""
    return database.parent / "backups"


def newest_backup(database: Path) -> Path | None:
    """Return the latest backup in the folder, by number, because clocks may jump. None if there is none."""
    found = _numbered(backup_folder(database))
    return found[-1][1] if found else None


class Backup:
    """One backup. `make` blocks until it is complete; `stop` may be called from another thread."""

    def __init__(self, database: Path, target: Path | None = None, *, keep_identical: bool = True) -> None:
        """`target` None: a new file in the folder, which keeps the newest ones. With `keep_identical=False`, a copy
        that is identical to the newest one there is deleted and that one returned."""
        self._database = database.absolute()
        self._target = target
        self._keep_identical = keep_identical
        self._stopped = threading.Event()
        self._connection: sqlite3.Connection | None = None

    def make(self) -> Path:
        """Make the backup and return its path. It is durable, checked, and renamed last. Raises StoreError."""
        try:
            if not self._database.is_file():
                raise StoreError(f"no backup was made: there is no database at {self._database}")
            folder = backup_folder(self._database)
            folder.mkdir(mode=0o700, exist_ok=True)
            with _exclusive(folder):
                return self._make(folder)
        except (sqlite3.Error, OSError) as error:
            reason = "it was cancelled" if self._stopped.is_set() else error
            raise StoreError(f"no backup was made: {reason}") from error

    def stop(self) -> None:
        """Cancel the backup, so that `make` raises. Repeat until it has, because it may be between two statements."""
        self._stopped.set()
        connection = self._connection
        if connection is not None:
            with contextlib.suppress(sqlite3.ProgrammingError):  # closed meanwhile
                connection.interrupt()

    def _make(self, folder: Path) -> Path:
        before = newest_backup(self._database)
        target = self._target.absolute() if self._target else folder / _next_name(folder)
        if target.exists():
            raise StoreError(f"no backup was made: {target} exists already; name a file that does not")
        draft = target.with_name(_DRAFT.format(target.name))
        draft.unlink(missing_ok=True)
        try:
            self._copy(draft)
            disk.sync(draft)
            self._check(draft)
            if not self._keep_identical and before is not None and filecmp.cmp(draft, before, shallow=False):
                os.utime(before)  # it counts as made now
                return before
            draft.replace(target)
        finally:
            draft.unlink(missing_ok=True)
        disk.sync(target.parent)
        if self._target is None:
            for _, old in _numbered(folder)[:-KEPT]:
                old.unlink()
        return target

    def _copy(self, draft: Path) -> None:
        """Copy with VACUUM INTO instead of the backup API. Both read one snapshot without blocking the writer, but
        VACUUM can be interrupted, reads every row and so fails on damage instead of copying it, and writes one compact
        file without a log, which can simply be copied."""
        need = sum(path.stat().st_size for path in (self._database, _wal_path(self._database)) if path.exists())
        free = shutil.disk_usage(draft.parent).free
        if free < need + HEADROOM:
            raise StoreError(
                f"no backup was made: {draft.parent} has {free} bytes free, and {need + HEADROOM} are needed"
            )
        os.close(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        with self._open(self._database) as connection:
            connection.execute("VACUUM INTO ?", (str(draft),))

    def _check(self, draft: Path) -> None:
        with self._open(draft) as connection:
            found: str = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
        if found != "ok":
            raise StoreError(f"no backup was made: the copy is damaged: {found}")

    @contextlib.contextmanager
    def _open(self, path: Path) -> Generator[sqlite3.Connection]:
        """Open a read connection that `stop` can interrupt."""
        with contextlib.closing(read_only(path)) as connection:
            self._connection = connection
            try:
                if self._stopped.is_set():
                    raise StoreError("no backup was made: it was cancelled")
                yield connection
            finally:
                self._connection = None


def read_only(path: Path) -> sqlite3.Connection:
    """Open a connection that does not change the file, not even by a checkpoint when it is closed."""
    connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, isolation_level=None)
    connection.execute("PRAGMA busy_timeout = 5000")
    return connection


@contextlib.contextmanager
def _exclusive(folder: Path) -> Generator[None]:
    """Allow one backup at a time, and remove the partial files of earlier processes."""
    lock = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        for draft in folder.glob(_DRAFT.format("*")):
            draft.unlink()
        yield
    except BlockingIOError:
        raise StoreError("no backup was made: another one is being made") from None
    finally:
        os.close(lock)


def clear_drafts(database: Path) -> None:
    """Remove the partial files of earlier processes, but not those of a running backup. Raises OSError."""
    folder = backup_folder(database)
    if folder.is_dir():
        with contextlib.suppress(StoreError), _exclusive(folder):
            pass


def _numbered(folder: Path) -> list[tuple[int, Path]]:
    """Return number and path of the backups in the folder, oldest first."""
    if not folder.is_dir():
        return []
    return sorted((int(found[1]), path) for path in folder.iterdir() if (found := _NAME.fullmatch(path.name)))


def _next_name(folder: Path) -> str:
    last = max((number for number, _ in _numbered(folder)), default=0)
    return f"agent-{last + 1:06d}-{datetime.now(UTC):%Y%m%dT%H%M%SZ}.db"


def _wal_path(database: Path) -> Path:
    return database.with_name(database.name + "-wal")
