"""A connection on which PostgreSQL says that another hub has written. No more than a doorbell: what was written is read
from the tables, and who waits for it looks by itself from time to time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import structlog

from ...database import HostDatabase
from .shared_lock import CHANNEL

log = structlog.get_logger(__name__)


class Doorbell:
    """Calls `on_ring` when another hub has written. A ring may be lost."""

    def __init__(self, database: HostDatabase, peer_id: str) -> None:
        self._database = database
        self._peer_id = peer_id.encode()
        self._connection: Any = None
        self.on_ring: Callable[[], None] = _ignore

    async def keep_open(self) -> None:
        """Connect unless that is done. Without a connection nothing rings."""
        if self._connection is not None:
            return
        try:
            self._connection = await asyncio.to_thread(self._database.listen, CHANNEL)
        except Exception as error:  # noqa: BLE001  whoever waits looks by itself
            log.warning("hub_doorbell_failed", why=str(error).splitlines()[0])
            return
        asyncio.get_running_loop().add_reader(self._connection.pgconn.socket, self._read)

    def close(self) -> None:
        """Ring no more."""
        connection = self._connection
        self._connection = None
        if connection is not None:
            asyncio.get_running_loop().remove_reader(connection.pgconn.socket)
            connection.close()

    def _read(self) -> None:
        rings = False
        try:
            self._connection.pgconn.consume_input()
            while (notice := self._connection.pgconn.notifies()) is not None:
                rings = rings or bytes(notice.extra) != self._peer_id
        except Exception as error:  # noqa: BLE001
            log.warning("hub_doorbell_lost", why=str(error).splitlines()[0])
            self.close()
            rings = True
        if rings:
            self.on_ring()


def _ignore() -> None:
    return
