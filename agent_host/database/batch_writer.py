"""One writer for what the agents of a team share. Writes that come while one commit runs share the next one.

A write reads what is there and decides in its own turn, so that comparing and setting is one step. One thread writes;
the event loop never waits for the disk. The database's lock is taken before the first read, so numbers that are counted
up in a transaction become visible in their order, also where others write to the same tables (`lock_shared`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from sqlalchemy import Connection, func, select, update

from ..errors import RequestError, TooMany
from .engine import HostDatabase
from .mesh_tables import blackboards

T = TypeVar("T")
Unit = Callable[[Connection], Any]
MOST_AT_ONCE = 128
"""Most writes of one commit, so that none takes long."""
MOST_WAITING = 4096
"""Waiting writes above which another is refused."""
_LOCK = 0x6D657368
_TAKE_WRITE_LOCK = update(blackboards).where(blackboards.c.team == "").values(newest=0)
"""Changes no row; SQLite begins a transaction that writes all the same."""


def lock_shared(connection: Connection) -> None:
    """Wait until no other transaction writes what teams share; the lock is held to the end of this one."""
    if connection.dialect.name == "postgresql":
        connection.execute(select(func.pg_advisory_xact_lock(_LOCK)))
    else:
        connection.execute(_TAKE_WRITE_LOCK)


class BatchWriter:
    """Runs writes in the order in which they come, several to a commit."""

    def __init__(self, database: HostDatabase, name: str) -> None:
        self._connection = database.open_connection()
        self._thread = ThreadPoolExecutor(1, name)
        self._waiting: list[tuple[Unit, asyncio.Future[Any]]] = []
        self._task: asyncio.Task[None] | None = None

    def submit(self, unit: Callable[[Connection], T]) -> asyncio.Future[T]:
        """Run `unit` in a transaction. The future has its value once it is committed.

        A unit that raises a RequestError must have written nothing that may not stay, because others share the
        transaction. After an error of the database before the commit each of them runs again, alone. Raises TooMany.
        """
        if len(self._waiting) >= MOST_WAITING:
            raise TooMany("the host has too much to write; try again later", code="too_many_writes")
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._waiting.append((unit, future))
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run(), name="shared writes")
        return future

    async def close(self) -> None:
        """Write what waits, and end the thread."""
        while self._task is not None:
            await asyncio.wait([self._task])
        self._thread.submit(self._connection.close)
        self._thread.shutdown(wait=True)

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while self._waiting:
                batch = self._waiting[:MOST_AT_ONCE]
                self._waiting = self._waiting[MOST_AT_ONCE:]
                results = await loop.run_in_executor(self._thread, self._write, [unit for unit, _ in batch])
                for (_, future), result in zip(batch, results, strict=True):
                    if future.done():  # its caller has gone away
                        continue
                    if isinstance(result, Exception):
                        future.set_exception(result)
                    else:
                        future.set_result(result)
        finally:
            self._task = None

    def _write(self, units: Sequence[Unit]) -> list[Any]:
        """Return the value or the error of each. Nothing runs again once all have run: an error that comes then is one
        of the commit, which may have been carried out all the same."""
        have_run = False

        def work(connection: Connection) -> list[Any]:
            nonlocal have_run
            lock_shared(connection)
            results = [_attempt(unit, connection) for unit in units]
            have_run = True
            return results

        try:
            return self._connection.run(work)
        except Exception as error:  # noqa: BLE001  it is the callers'
            if have_run or len(units) == 1:
                return [error] * len(units)
            return [self._write([unit])[0] for unit in units]


def _attempt(unit: Unit, connection: Connection) -> Any:
    try:
        return unit(connection)
    except RequestError as error:
        return error
