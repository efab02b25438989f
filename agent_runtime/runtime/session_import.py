"""Sessions that are carried from one data directory into another."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import BinaryIO

from agent_common.clock import SystemClock

from ..errors import StartError
from ..sessions import transfer
from ..settings import Settings
from ..store import Database
from ..workspace import Home
from .migrations import MIGRATIONS


def import_session(settings: Settings, path: str) -> str:
    """Stores an exported session in a data directory that no server uses; its id.

    Raises StartError when the file cannot be read or the directory not be taken, InvalidRequest, Conflict, StoreError.
    """
    home = Home(settings.data_dir)
    database = Database(home.database, MIGRATIONS)

    async def store(file: BinaryIO) -> str:
        export = transfer.validate_export(file)
        home.prepare()
        now = SystemClock().now_ms()
        database.open()
        try:
            await database.write(lambda connection: transfer.store_session(connection, file, export, now), durable=True)
        finally:
            database.close()
        return export.session_id

    try:
        with Path(path).open("rb") as file:
            return asyncio.run(store(file))
    except OSError as error:
        raise StartError(f"{path} cannot be read: {error.strerror}") from error
