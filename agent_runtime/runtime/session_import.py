"""Sessions that are carried from one data directory into another."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import BinaryIO

from agent_common.clock import SystemClock

from ..errors import StartError
from ..sessions import transfer, write_copy
from ..settings import Settings
from ..store import Database
from ..workspace import Home
from .migrations import MIGRATIONS


def import_session(settings: Settings, path: str, *, keep_permissions: bool) -> tuple[str, list[str]]:
    """Store an exported session in a data directory that no server uses. Return its id, and the rules that were left
    out.

    Raises StartError when the file cannot be read or the directory not be taken, InvalidRequest, Conflict, StoreError.
    """
    home = Home(settings.data_dir)
    database = Database(home.database, MIGRATIONS)

    async def store(file: BinaryIO) -> tuple[str, list[str]]:
        now = SystemClock().now_ms()
        export = transfer.validate_export(file, now)
        copy = transfer.ImportCopy(file, export, now, keep_permissions=keep_permissions)
        home.prepare()
        database.open()
        try:
            await write_copy(database, copy, now)
        finally:
            database.close()
        return export.session_id, [] if keep_permissions else export.rules

    try:
        with Path(path).open("rb") as file:
            return asyncio.run(store(file))
    except OSError as error:
        raise StartError(f"{path} cannot be read: {error.strerror}") from error
