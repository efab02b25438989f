"""The one writer of the ledger. Rows that are submitted at the same moment share one commit (group commit).

Rows are read from memory when a commit begins, so a request that changes twice meanwhile is written once. One thread
writes; the event loop never waits for the disk. After a crash a commit is complete or absent, and no caller was
notified before it. Rows without a waiting caller (mostly the audit trail) share the next commit that a caller waits
for, or are written about `GATHER_SECONDS` later; a host killed before that loses nothing that it had acknowledged.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import structlog
from sqlalchemy import Connection

from ...database import HostDatabase
from ...errors import Unavailable
from .promotions import NewResult, Promote, promote_nothing
from .sql import Row, Values, write_batch
from .waiting_rows import MOST_UNWRITTEN, Callback, WaitingRows
from .work import OpenWork

log = structlog.get_logger(__name__)
T = TypeVar("T")

GATHER_SECONDS = 0.05
"""Seconds that rows without a waiting caller may wait."""
RETRY_SECONDS = 1.0


class LedgerWriter:
    """Writes rows in the order of submission, and calls back when they are on disk."""

    def __init__(self, database: HostDatabase) -> None:
        self.promote: Promote = promote_nothing
        """Writes what results promote, on the writer's thread. The owner of the listener sets it."""
        self._database = database
        self._connection = database.open_connection()
        self._thread = ThreadPoolExecutor(1, "work-journal")
        self._waiting = WaitingRows()
        self._task: asyncio.Task[None] | None = None
        """Commits while rows wait; None if none wait."""
        self._urgent = asyncio.Event()
        self._closing = asyncio.Event()
        self.failure: str | None = None
        """Why the last write failed; None if it did not."""
        self.commits = 0

    def is_full(self, workspace: str) -> bool:
        """Return whether so much of the workspace's audit trail is unwritten that it gets no new work."""
        return self._waiting.audit_counts.get(workspace, 0) >= MOST_UNWRITTEN

    def is_behind(self, workspace: str) -> bool:
        """Return whether reading from its agent should pause until more of its audit trail is written."""
        return self._waiting.is_behind(workspace)

    def admit(self, work: OpenWork) -> asyncio.Future[Row | None]:
        """Write new work. Once it is durable, the future's result is None; if the id is taken, it is the existing row
        and nothing is written. The future raises Unavailable if the database fails."""
        future: asyncio.Future[Row | None] = asyncio.get_running_loop().create_future()
        self._waiting.new[work.id] = work, future
        self._schedule(urgent=True)
        return future

    def save(self, work: OpenWork, callback: Callback, result: NewResult | None = None) -> None:
        """Write the row, and call back once it is durable. A failing database is tried until it works.

        `result`: the row of the task that the work was, written in the same commit."""
        self._waiting.dirty[work.id] = work
        if result is not None:
            self._waiting.results.append(result)
        self._waiting.callbacks.append(callback)
        self._schedule(urgent=True)

    def save_result(self, row: NewResult, callback: Callback) -> None:
        """Write the result of a task, unless it is known, and call back once it is durable."""
        self._waiting.results.append(row)
        self._waiting.callbacks.append(callback)
        self._schedule(urgent=True)

    def save_later(self, work: OpenWork) -> None:
        """Write the row soon; nothing depends on when."""
        self._waiting.dirty[work.id] = work
        self._schedule()

    def mark_delivered(self, request_id: str, at: int) -> None:
        """Store that a caller has read the end of the request."""
        self._waiting.delivered.setdefault(request_id, at)
        self._schedule()

    def append_audit(self, row: Values) -> None:
        """Write a row of the audit trail soon. Values in the order of `sql.AUDIT`."""
        self._waiting.append_audit(row)
        self._schedule()

    def save_epoch(self, workspace: str, newest: int, callback: Callback) -> None:
        """Store the newest epoch, and call back once it is durable."""
        epochs = self._waiting.epochs
        epochs[workspace] = max(newest, epochs.get(workspace, 0))
        self._waiting.callbacks.append(callback)
        self._schedule(urgent=True)

    async def run(self, unit: Callable[[Connection], T]) -> T:
        """Run `unit` in a transaction of its own, after all rows submitted before. Raises Unavailable."""
        await self.flush()
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, self._connection.run, unit)
        except Exception as error:
            raise _unavailable(error) from error

    async def read(self, unit: Callable[[Connection], T]) -> T:
        """Read what is on disk, without waiting for rows that are not. Raises Unavailable."""
        try:
            return await self._database.run(unit)
        except Exception as error:
            raise _unavailable(error) from error

    async def flush(self) -> None:
        """Return once all rows submitted before are on disk, or the database fails."""
        if self._task is not None and self.failure is None:
            written: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.flushes.append(written)
            self._schedule(urgent=True)
            await written

    async def close(self) -> None:
        """Write the rows that wait, then end the thread. Rows that a failing database refuses are lost, and logged."""
        self._closing.set()
        self._urgent.set()
        while self._task is not None:
            await asyncio.wait([self._task])
        self._thread.submit(self._connection.close)
        self._thread.shutdown(wait=True)

    # ---------------------------------------------------------------- commits

    def _schedule(self, *, urgent: bool = False) -> None:
        if urgent:
            self._urgent.set()
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._write_all())

    async def _write_all(self) -> None:
        """Commit until no row waits. A failed commit is tried again after a pause, unless the writer is closing."""
        try:
            while self._waiting.pending:
                await self._gather()
                if not await self._commit():
                    if self._closing.is_set():
                        return
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(RETRY_SECONDS):
                            await self._closing.wait()
        finally:
            self._task = None

    async def _gather(self) -> None:
        """Wait until a caller waits for a row or the time is up, and then for a turn of the event loop that brings no
        more such rows: they share the commit."""
        if not self._urgent.is_set() and not self._closing.is_set():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(GATHER_SECONDS):
                    await self._urgent.wait()
        while self._urgent.is_set():
            self._urgent.clear()
            await asyncio.sleep(0)

    async def _commit(self) -> bool:
        """Write the waiting rows. Return False if the database fails."""
        written = self._waiting
        self._waiting = WaitingRows()
        loop = asyncio.get_running_loop()
        try:
            batch = written.to_batch()
            promote = self.promote
            known = await loop.run_in_executor(self._thread, write_batch, self._connection.run, batch, promote)
        except Exception as error:  # noqa: BLE001
            self._on_failed(error, written)
        else:
            self.failure = None
            self.commits += 1
            for name, (_, future) in written.new.items():
                if not future.done():
                    future.set_result(known.get(name))
            loop.call_soon(_call_all, written.callbacks)  # after those that wait for an admission
        for flush in written.flushes:
            if not flush.done():
                flush.set_result(None)
        return self.failure is None

    def _on_failed(self, error: Exception, written: WaitingRows) -> None:
        self.failure = _first_line(error)
        log.error("work_journal_failed", why=self.failure)
        for _, future in written.new.values():
            if not future.done():
                future.set_exception(_unavailable(error))
        self._waiting.merge_failed(written)


def _call_all(calls: list[Callback]) -> None:
    for call in calls:
        try:
            call()
        except Exception as error:  # the other callbacks must run
            log.exception("work_journal_call_failed", why=repr(error))


def _unavailable(error: BaseException) -> Unavailable:
    log.error("work_database_failed", why=_first_line(error))
    return Unavailable("the host's database does not answer", code="database_unavailable")


def _first_line(error: BaseException) -> str:
    """Return what has failed. Further lines may quote the row that was refused, which may hold a secret."""
    return (str(error) or type(error).__name__).splitlines()[0]
