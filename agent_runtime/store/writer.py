"""One thread that writes, in the order of submission.

Units that wait at the same time share one transaction (group commit), so many turns pay for one fsync. A batch with a
durable unit commits with `synchronous=FULL`; as the write-ahead log is one file, that also makes all earlier writes
durable.

A crash never applies a part of a unit, and the future of a unit resolves only after its commit.
"""

from __future__ import annotations

import asyncio
import queue
import sqlite3
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from ..errors import StoreError
from .integrity import broken_record_error, is_broken, is_damage, is_database_failure, is_disk_full
from .reserve import DiskReserve

T = TypeVar("T")
Unit = Callable[[sqlite3.Connection], T]
"""Work inside a transaction: runs SQL on the connection and returns a value. It may run twice: a transaction that finds
the disk full is rolled back, and begun again with the reserve."""

MAX_WAITING = 10_000
MAX_BATCH = 256


@dataclass(slots=True)
class _Job:
    unit: Unit[Any]
    durable: bool
    future: asyncio.Future[Any]
    value: Any = None
    error: BaseException | None = None


class DatabaseWriter:
    """Owns the two writing connections, one with `synchronous=FULL` and one with NORMAL."""

    def __init__(self, full: sqlite3.Connection, normal: sqlite3.Connection, reserve: DiskReserve) -> None:
        self._full = full
        self._normal = normal
        self._reserve = reserve
        self.commits = 0
        """Number of transactions of this process, by which others detect changes."""
        self.damaged = False
        """Whether the file was found to be damaged."""
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="store-writer", daemon=True)
        self._thread.start()

    def submit(self, unit: Unit[T], *, durable: bool) -> asyncio.Future[T]:
        """Submit a unit. The future resolves once it is committed, or raises StoreError or the unit's exception."""
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        if self._jobs.qsize() >= MAX_WAITING:
            future.set_exception(StoreError(f"{MAX_WAITING} writes are waiting for the disk"))
        else:
            self._jobs.put(_Job(unit, durable, cast("asyncio.Future[Any]", future)))
        return future

    def close(self) -> None:
        """Write everything submitted, then end the thread."""
        self._jobs.put(None)
        self._thread.join()
        self._full.close()
        self._normal.close()

    def _run(self) -> None:
        self._reserve.fill()
        while (job := self._jobs.get()) is not None:
            batch, last = self._gather(job)
            try:
                self._commit(batch)
            except BaseException as error:  # noqa: BLE001  waiting tasks must learn of any failure
                for job in batch:
                    job.error = job.error or StoreError(f"the writer failed: {error!r}")
            _resolve(batch)
            if last:
                return

    def _gather(self, first: _Job) -> tuple[list[_Job], bool]:
        batch = [first]
        while len(batch) < MAX_BATCH and not self._jobs.empty():
            job = self._jobs.get()
            if job is None:
                return batch, True
            batch.append(job)
        return batch, False

    def _commit(self, batch: list[_Job]) -> None:
        connection = self._full if any(job.durable for job in batch) else self._normal
        try:
            connection.execute("BEGIN IMMEDIATE")
            for job in batch:
                _apply(connection, job, alone=len(batch) == 1)
            connection.execute("COMMIT")
            self.commits += 1
            if self._reserve.released:
                self._reserve.fill()
        except (sqlite3.Error, OSError) as error:
            self.damaged = self.damaged or is_damage(error)
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            if is_disk_full(error) and self._reserve.release():
                for job in batch:
                    job.error = None
                self._commit(batch)
                return
            for job in batch:
                job.error = job.error or StoreError(f"the database refused: {error}")


def _apply(connection: sqlite3.Connection, job: _Job, *, alone: bool) -> None:
    """Run one unit. If other units share the transaction, it gets a savepoint, so that its failure does not affect
    them. The savepoint is released at once, because every write of a page checks all open ones."""
    if not alone:
        connection.execute("SAVEPOINT unit")
    try:
        job.value = job.unit(connection)
        if not alone:
            connection.execute("RELEASE unit")
    except Exception as error:
        if is_database_failure(error) or not connection.in_transaction:
            raise  # the whole batch has failed
        job.error = broken_record_error(error) if is_broken(error) else error
        connection.execute("ROLLBACK" if alone else "ROLLBACK TO unit")
        if alone:
            connection.execute("BEGIN IMMEDIATE")


def _resolve(batch: list[_Job]) -> None:
    loops = {job.future.get_loop() for job in batch}
    for loop in loops:
        mine = [job for job in batch if job.future.get_loop() is loop]
        try:
            loop.call_soon_threadsafe(_set_results, mine)
        except RuntimeError:  # the loop is closed, so no task waits any more
            continue


def _set_results(batch: list[_Job]) -> None:
    for job in batch:
        if job.future.cancelled():
            continue
        if job.error is not None:
            job.future.set_exception(job.error)
        else:
            job.future.set_result(job.value)
