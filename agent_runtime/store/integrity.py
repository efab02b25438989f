"""Check the database file before it is used, and report damage with instructions for the operator."""

from __future__ import annotations

import contextlib
import shlex
import sqlite3
import struct
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from agent_common.clock import calendar_time

from ..errors import BrokenRecord, StartError, StoreError
from .backups import backup_folder, newest_backup, read_only

SMALL = 8 * 1024 * 1024
"""A file up to this size is checked at every start, in at most 5 ms. A larger one only after an unclean end: that takes
half a second per gigabyte, or more if it must be read from the disk."""
_HEAD = 100
_MAGIC = b"SQLite format 3\0"
_DAMAGE = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}
_UNREADABLE = {sqlite3.SQLITE_IOERR, sqlite3.SQLITE_FULL, sqlite3.SQLITE_CANTOPEN}


def check_database_file(database: Path, *, unclean: bool) -> None:
    """Check the file before it is opened for writing. Raises StartError with the damage and instructions."""
    size = _size(database)
    log = _size(_beside(database, "-wal"))
    if not size:
        if log:  # SQLite would delete the log as a leftover
            raise damaged_error(database, f"it is {_missing_or_empty(size)}, while its log beside it holds {log} bytes")
        if newest_backup(database) is not None:
            raise damaged_error(
                database,
                f"it is {_missing_or_empty(size)}, although there are backups of it (to begin empty, move those aside)",
            )
        return
    if log and _restored(database):
        raise StartError(_STRAY.format(database=database, moves=_move_aside_commands(database, ("-wal", "-shm"))))
    if unclean or size <= SMALL:
        try:
            with contextlib.closing(read_only(database)) as connection:
                found = [row[0] for row in connection.execute("PRAGMA quick_check(3)")]
        except sqlite3.DatabaseError as error:
            if not is_damage(error):
                raise
            raise damaged_error(database, _reason(database, error)) from error
        if found != ["ok"]:
            raise damaged_error(database, "; ".join(text.replace("\n", " ") for text in found))


def is_damage(error: Exception) -> bool:
    """Return whether SQLite reports that the file is damaged or not a database."""
    code = getattr(error, "sqlite_errorcode", None)  # the low byte of an extended code is the primary code
    return code is not None and code & 0xFF in _DAMAGE


def is_database_failure(error: Exception) -> bool:
    """Return whether the database itself failed. SQLITE_ERROR concerns the statement, and so only its unit."""
    return is_damage(error) or (
        isinstance(error, sqlite3.OperationalError) and error.sqlite_errorcode != sqlite3.SQLITE_ERROR
    )


def is_unreadable(error: Exception) -> bool:
    """Return whether the file cannot be read, because of damage or a failing disk."""
    return is_damage(error) or getattr(error, "sqlite_errorcode", 0) & 0xFF in _UNREADABLE


def is_broken(error: Exception) -> bool:
    """Return whether a part of the schema is missing, or a row contains invalid JSON."""
    text = str(error)
    plain = isinstance(error, sqlite3.OperationalError) and error.sqlite_errorcode == sqlite3.SQLITE_ERROR
    return plain and text.startswith(("no such table", "no such column", "malformed JSON"))


def broken_record_error(error: Exception) -> StoreError:
    """Return the error for callers, and for the operator of a server that cannot start."""
    if isinstance(error, sqlite3.Error) and "no such" in str(error):
        return StoreError(part_missing(str(error)))
    return BrokenRecord(f"a row of the database cannot be read: {error!r} ({_WAY_BACK})")


def part_missing(what: str) -> str:
    """Return the message for a missing table, column or index; `what` names it in SQLite's words."""
    return f"a part of the database is missing: {what} ({_WAY_BACK})"


def is_disk_full(error: Exception) -> bool:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_FULL


def damaged_error(database: Path, found: str | sqlite3.Error) -> StartError:
    """Return the error for the operator of a damaged database."""
    if isinstance(found, sqlite3.Error):
        found = _reason(database, found)
    backup = newest_backup(database)
    if backup is None:
        text = _NO_BACKUP.format(folder=backup_folder(database), moves=_move_aside_commands(database))
    else:
        made = calendar_time(backup.stat().st_mtime_ns // 1_000_000)
        text = _RESTORE.format(
            backup=backup,
            made=f"{made:%Y-%m-%d %H:%M:%S} UTC",
            moves=_move_aside_commands(database),
            copy=shlex.join(("cp", str(backup), str(database))),
        )
    return StartError(f"the database {database} is damaged: {found}\n{text}")


_WAY_BACK = "docs/reference/storage.md explains how to restore a backup"
_RESTORE = """\
Its newest backup is {backup}, made {made}. What came later is not in it. To put it back:
1. Stop all other programs that use the database.
2. Move the damaged files aside, all of them:
{moves}
3. Copy the backup to its place:
    {copy}
4. Start the server again."""
_NO_BACKUP = """\
There is no backup of it in {folder}.
If you have a copy elsewhere, move the damaged files aside, put the copy in place and start again. Without one the
server then starts with an empty database; `sqlite3 FILE .recover` can read what is left in the damaged file:
{moves}"""
_STRAY = """\
{database} is a backup that was put back, but the log of the previous database is still beside it, and
would be written into it. Move that log aside, then start the server again:
{moves}"""


def _move_aside_commands(database: Path, endings: Sequence[str] = ("", "-wal", "-shm")) -> str:
    """Return the commands that move the existing files into a new folder."""
    there = [path for ending in endings if (path := _beside(database, ending)).exists()]
    folder = database.parent / f"damaged-{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
    if not there:
        return "    (there are none)"
    lines = ("mkdir", "-p", str(folder)), ("mv", *map(str, there), f"{folder}/")
    return "\n".join(f"    {shlex.join(line)}" for line in lines)


def _reason(database: Path, error: sqlite3.Error) -> str:
    """Return SQLite's message, or a better one if the file shows what happened."""
    head = _head(database)
    if not head.startswith(_MAGIC):
        return "it is not an SQLite database, or its first page was overwritten"
    if len(head) < _HEAD:
        return f"it was truncated: {len(head)} bytes are left"
    page = struct.unpack(">H", head[16:18])[0]
    pages = struct.unpack(">I", head[28:32])[0]
    whole = (65536 if page == 1 else page) * pages
    size = _size(database) or 0
    if size < whole and not _size(_beside(database, "-wal")):
        return f"it was truncated: {size} bytes of {whole} are left"
    return str(error)


def _restored(database: Path) -> bool:
    """Return whether the file is a restored backup: unlike a server's file, it is not in write-ahead mode."""
    head = _head(database)
    return head.startswith(_MAGIC) and head[18:20] == b"\x01\x01"


def _head(database: Path) -> bytes:
    with database.open("rb") as file:
        return file.read(_HEAD)


def _beside(database: Path, ending: str) -> Path:
    return database.with_name(database.name + ending)


def _size(path: Path) -> int | None:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return None


def _missing_or_empty(size: int | None) -> str:
    return "missing" if size is None else "empty"
