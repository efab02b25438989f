"""Copy an SQLite database while other processes use it."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

from agent_common import disk

from ..errors import StartError

_BUSY_SECONDS = 30.0


def copy_sqlite(source: Path, target: Path) -> None:
    """Write a checked copy to `target`, a new file that only its owner can read. Raises StartError.

    VACUUM INTO reads one snapshot without holding up writers, reads every row and so fails on damage instead of copying
    it, and writes one file without a log.
    """
    os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    try:
        with closing(_read_only(source)) as connection:
            connection.execute("VACUUM INTO ?", (str(target),))
        with closing(_read_only(target)) as connection:
            found: str = connection.execute("PRAGMA integrity_check(1)").fetchone()[0]
    except sqlite3.Error as error:
        raise StartError(f"no backup was made: {source}: {error}") from error
    if found != "ok":
        raise StartError(f"no backup was made: the copy of {source} is damaged: {found}")
    disk.sync(target)


def _read_only(path: Path) -> sqlite3.Connection:
    uri = f"{path.absolute().as_uri()}?mode=ro"
    return sqlite3.connect(uri, uri=True, isolation_level=None, timeout=_BUSY_SECONDS)
