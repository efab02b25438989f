"""Bound what forks and imports add to the database, so that no user fills the disk with copies."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from weakref import WeakValueDictionary

from agent_common.net import fits_share

from ..errors import StorageFull
from ..store import Database
from .store import rows

_LEAST_BYTES = 16 * 1024
"""What the copy of an empty session counts."""
_MIB = 2**20


class CopyShares:
    """Lets a user's copies take as much as they leave free: of the bound and of the disk. One copy of a user is written
    at a time."""

    def __init__(self, database: Database, most_bytes: int) -> None:
        """`most_bytes`: how large forks and imports may make the database; 0: as large as the disk."""
        self._database = database
        self._most = most_bytes
        self._writing = 0
        """Bytes of the copies that are being written."""
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    @asynccontextmanager
    async def hold(self, principal: str, size: int) -> AsyncGenerator[None]:
        """Reserve room for a copy of `size` bytes while it is written. Raises StorageFull."""
        size = max(size, _LEAST_BYTES)
        async with self._locks.setdefault(principal, asyncio.Lock()):
            held, used = await self._database.read_long(lambda connection: _measure(connection, principal))
            free = shutil.disk_usage(self._database.path.parent).free
            if self._most:
                free = min(free, self._most - used)
            if not fits_share(free - self._writing, held, size):
                raise _storage_full(size, held)
            self._writing += size
            try:
                yield
            finally:
                self._writing -= size


def _measure(connection: sqlite3.Connection, principal: str) -> tuple[int, int]:
    """Return the bytes of a principal's copies, and of all that is stored."""
    held = connection.execute(_HELD, {"least": _LEAST_BYTES, "principal": principal}).fetchone()[0]
    pages, free, size = (
        connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "freelist_count", "page_size")
    )
    return held, (pages - free) * size


def _storage_full(size: int, held: int) -> StorageFull:
    copies = f"your forked and imported sessions hold {held / _MIB:.1f} MiB"
    fix = "idle sessions are deleted after AGENT_RETENTION_DAYS, and the operator may raise AGENT_COPIES_MB"
    return StorageFull(f"{copies}, and there is no room for {size / _MIB:.1f} MiB more: {fix}")


_HELD = f"""
SELECT coalesce(sum(max(json_extract(metadata_json, '$.{rows.COPIED_BYTES}'), :least)), 0) FROM chat_sessions
WHERE json_extract(metadata_json, '$.principal') = :principal AND json_valid(metadata_json)
  AND json_type(metadata_json, '$.{rows.COPIED_BYTES}') = 'integer'
"""  # noqa: S608  a constant
