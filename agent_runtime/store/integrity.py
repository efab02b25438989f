"""Is the file sound? Asked before anything is built on it, and answered in words that an operator can follow."""

from __future__ import annotations

import contextlib
import shlex
import sqlite3
import struct
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from ..errors import BrokenRecord, StartError, StoreError
from .backups import backup_folder, newest_backup, read_only

SMALL = 8 * 1024 * 1024
"""A file up to this size is checked at every start: it takes 5 ms at most. A larger one only after a life that did not
end cleanly, at half a second for each gigabyte, or more when the disk has to be read for it."""
_HEAD = 100
_MAGIC = b"SQLite format 3\0"
_DAMAGE = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}
_UNREADABLE = {sqlite3.SQLITE_IOERR, sqlite3.SQLITE_FULL, sqlite3.SQLITE_CANTOPEN}


def check_database_file(database: Path, *, unclean: bool) -> None:
    """Looks at the file before it is opened for writing. Raises StartError that says what is wrong and what to do."""
    size, log = _size(database), _size(_beside(database, "-wal"))
    if not size:
        if log:  # SQLite would take the log for a leftover and delete it
            raise damaged_error(database, f"it is {_missing_or_empty(size)}, while its log beside it holds {log} bytes")
        if newest_backup(database) is not None:
            raise damaged_error(
                database,
                f"it is {_missing_or_empty(size)}, although there are backups of it (to begin anew, move those aside)",
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
    """Whether SQLite says that the file is damaged, or none of its own."""
    code = getattr(error, "sqlite_errorcode", None)  # an extended code holds the plain one in its low byte
    return code is not None and code & 0xFF in _DAMAGE


def is_database_failure(error: Exception) -> bool:
    """Whether the database itself refused. SQLITE_ERROR is about the statement, and so about its unit alone."""
    return is_damage(error) or (
        isinstance(error, sqlite3.OperationalError) and error.sqlite_errorcode != sqlite3.SQLITE_ERROR
    )


def is_unreadable(error: Exception) -> bool:
    """Whether the disk does not give what a reader asks for."""
    return is_damage(error) or getattr(error, "sqlite_errorcode", 0) & 0xFF in _UNREADABLE


def is_broken(error: Exception) -> bool:
    """Whether a part of the database is missing, or a row holds something else than it should."""
    told = str(error)
    plain = isinstance(error, sqlite3.OperationalError) and error.sqlite_errorcode == sqlite3.SQLITE_ERROR
    return plain and told.startswith(("no such table", "no such column", "malformed JSON"))


def broken_record_error(error: Exception) -> StoreError:
    """What callers, and the operator of a server that cannot start, are told."""
    if isinstance(error, sqlite3.Error) and "no such" in str(error):
        return StoreError(part_missing(str(error)))
    return BrokenRecord(f"a row of the database cannot be read: {error!r} ({_WAY_BACK})")


def part_missing(what: str) -> str:
    """The message for a table, column or index that is not there; `what` names it in SQLite's words."""
    return f"a part of the database is missing: {what} ({_WAY_BACK})"


def is_disk_full(error: Exception) -> bool:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_FULL


def damaged_error(database: Path, found: str | sqlite3.Error) -> StartError:
    """What the operator of a damaged database is told."""
    if isinstance(found, sqlite3.Error):
        found = _reason(database, found)
    backup = newest_backup(database)
    if backup is None:
        text = _NO_BACKUP.format(folder=backup_folder(database), moves=_move_aside_commands(database))
    else:
        made = datetime.fromtimestamp(backup.stat().st_mtime, UTC)
        text = _RESTORE.format(
            backup=backup,
            made=f"{made:%Y-%m-%d %H:%M:%S} UTC",
            moves=_move_aside_commands(database),
            copy=shlex.join(("cp", str(backup), str(database))),
        )
    return StartError(f"the database {database} is damaged: {found}\n{text}")


_WAY_BACK = "docs/reference/storage.md tells how to put back a backup"
_RESTORE = """\
Its newest backup is {backup}, made {made}. What came later is not in it. To put it back:
1. Stop whatever else uses the database.
2. Move the damaged files aside, all of them:
{moves}
3. Copy the backup to its place:
    {copy}
4. Start the server again."""
_NO_BACKUP = """\
There is no backup of it in {folder}.
If you have a copy elsewhere, move the damaged files aside, put the copy in place and start again. Without one the
server begins anew after this; what can be saved, `sqlite3 FILE .recover` reads from the file that was moved aside:
{moves}"""
_STRAY = """\
{database} is a backup that was put back, but the log of the database that was there before still lies beside it, and
would be written into it. Move that log aside, then start the server again:
{moves}"""


def _move_aside_commands(database: Path, endings: Sequence[str] = ("", "-wal", "-shm")) -> str:
    """The commands that move the files there are into a folder of their own."""
    there = [path for ending in endings if (path := _beside(database, ending)).exists()]
    folder = database.parent / f"damaged-{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
    if not there:
        return "    (there are none)"
    lines = ("mkdir", "-p", str(folder)), ("mv", *map(str, there), f"{folder}/")
    return "\n".join(f"    {shlex.join(line)}" for line in lines)


def _reason(database: Path, error: sqlite3.Error) -> str:
    """SQLite's own words, or better ones where the file shows what has happened to it."""
    head = _head(database)
    if not head.startswith(_MAGIC):
        return "it is no SQLite database, or its first page was overwritten"
    if len(head) < _HEAD:
        return f"it was cut off: {len(head)} bytes are left"
    page, pages = struct.unpack(">H", head[16:18])[0], struct.unpack(">I", head[28:32])[0]
    whole, size = (65536 if page == 1 else page) * pages, _size(database) or 0
    if size < whole and not _size(_beside(database, "-wal")):
        return f"it was cut off: {size} bytes of {whole} are left"
    return str(error)


def _restored(database: Path) -> bool:
    """Whether the file is as a backup is made and a server never leaves it: not in write-ahead mode."""
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
