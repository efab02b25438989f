"""Whole copies of the database, made while a server works, in the folder `backups` beside it."""

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

from ..errors import StoreError

KEPT = 2
"""Backups that stay in the folder: the newest, and the one before in case nobody noticed in time."""
HEADROOM = 16 * 1024 * 1024
"""Bytes that a backup leaves free: a copy must never be what fills the disk of a server at work."""
_NAME = re.compile(r"agent-(\d+)-\d{8}T\d{6}Z\.db")
_DRAFT = ".{}.partial"


def backup_folder(database: Path) -> Path:
    """Where the backups of a database lie."""
    return database.parent / "backups"


def newest_backup(database: Path) -> Path | None:
    """The latest backup in the folder, by its number: clocks may jump."""
    found = _numbered(backup_folder(database))
    return found[-1][1] if found else None


class Backup:
    """One backup in the making. `make` blocks until it stands; `stop` may be called from another thread."""

    def __init__(self, database: Path, target: Path | None = None, *, keep_identical: bool = True) -> None:
        """Without a target it goes into the folder, which keeps the newest ones. With `again=False` a copy that is
        byte for byte the newest one there is dropped in its favour."""
        self._database, self._target, self._keep_identical = database.absolute(), target, keep_identical
        self._stopped = threading.Event()
        self._connection: sqlite3.Connection | None = None

    def make(self) -> Path:
        """Makes it and gives its path: on disk, checked, and under its name only when whole. Raises StoreError."""
        try:
            if not self._database.is_file():
                raise StoreError(f"no backup was made: there is no database at {self._database}")
            folder = backup_folder(self._database)
            folder.mkdir(mode=0o700, exist_ok=True)
            with _exclusive(folder):
                return self._make(folder)
        except (sqlite3.Error, OSError) as error:
            reason = "it was broken off" if self._stopped.is_set() else error
            raise StoreError(f"no backup was made: {reason}") from error

    def stop(self) -> None:
        """Breaks it off: `make` raises soon. Call it again until it has, for it may be between two statements."""
        self._stopped.set()
        connection = self._connection
        if connection is not None:
            with contextlib.suppress(sqlite3.ProgrammingError):  # it has just been closed
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
            _fsync(draft)
            self._check(draft)
            if not self._keep_identical and before is not None and filecmp.cmp(draft, before, shallow=False):
                os.utime(before)  # it is as good as new
                return before
            draft.replace(target)
        finally:
            draft.unlink(missing_ok=True)
        _fsync(target.parent)
        if self._target is None:
            for _, old in _numbered(folder)[:-KEPT]:
                old.unlink()
        return target

    def _copy(self, draft: Path) -> None:
        """VACUUM INTO rather than the backup API: it reads one snapshot beside the writer just so, but it can be
        interrupted, it reads every row and so stumbles over damage instead of copying it, and what it writes is
        compact and one file without a log, of which a copy is a copy."""
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
        """A connection for reading, which `stop` can interrupt."""
        with contextlib.closing(read_only(path)) as connection:
            self._connection = connection
            try:
                if self._stopped.is_set():
                    raise StoreError("no backup was made: it was broken off")
                yield connection
            finally:
                self._connection = None


def read_only(path: Path) -> sqlite3.Connection:
    """A connection that changes nothing in the file: not even its log is written back when it is closed."""
    connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, isolation_level=None)
    connection.execute("PRAGMA busy_timeout = 5000")
    return connection


@contextlib.contextmanager
def _exclusive(folder: Path) -> Generator[None]:
    """One maker at a time. Whoever it is first clears away what one that died has left half done."""
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
    """Removes what a maker that died has left half done; leaves one alone that is at work. Raises OSError."""
    folder = backup_folder(database)
    if folder.is_dir():
        with contextlib.suppress(StoreError), _exclusive(folder):
            pass


def _numbered(folder: Path) -> list[tuple[int, Path]]:
    """The backups in the folder, oldest first."""
    if not folder.is_dir():
        return []
    return sorted((int(found[1]), path) for path in folder.iterdir() if (found := _NAME.fullmatch(path.name)))


def _next_name(folder: Path) -> str:
    last = max((number for number, _ in _numbered(folder)), default=0)
    return f"agent-{last + 1:06d}-{datetime.now(UTC):%Y%m%dT%H%M%SZ}.db"


def _wal_path(database: Path) -> Path:
    return database.with_name(database.name + "-wal")


def _fsync(path: Path) -> None:
    """Puts a file, or the names in a folder, on the disk."""
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
