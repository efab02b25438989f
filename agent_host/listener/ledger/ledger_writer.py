"""The one writer of the ledger. Rows that are handed in at the same moment share one commit (group commit).

Rows are taken from memory when a commit begins, so a request that changes twice meanwhile is written once. One thread
writes; the event loop never waits for the disk. Under load, rows that no caller waits for (the audit trail above all)
do not delay rows that one waits for: they are written in the next lull, or with those when no lull comes.

After a crash a commit is there as a whole or not at all, and no caller was told of it before. Unawaited rows are
written about `GATHER_SECONDS` later; a host that is killed before has lost nothing that it had promised.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

import structlog
from sqlalchemy import Connection

from ...database import HostDatabase
from ...errors import Unavailable
from .commit import write_batch
from .commit_batch import MOST_UNWRITTEN, Callback, Row, WaitingWrite
from .sql import Values
from .work import OpenWork

log = structlog.get_logger(__name__)
T = TypeVar("T")

GATHER_SECONDS = 0.05
"""How long unawaited rows may wait."""
LULL_SECONDS = 0.003
"""Seconds without awaited rows, after which many unawaited ones are written."""
MAX_DELAY_SECONDS = 0.02
"""Seconds without such a lull, after which unawaited rows go along with awaited ones."""
RETRY_SECONDS = 1.0


class LedgerWriter:
    """Takes rows, writes them in order, and calls back when they are on the disk."""

    def __init__(self, database: HostDatabase) -> None:
        self._database, self._connection = database, database.open_connection()
        self._thread = ThreadPoolExecutor(1, "work-journal")
        self._waiting = WaitingWrite()
        self._handle: asyncio.Handle | None = None
        """Starts the next commit."""
        self._scheduled = self._more_came = False
        """The commit starts after a turn of the event loop that brings no more rows."""
        self._committing: asyncio.Future[None] | None = None
        """Done when the current commit is; None when there is none."""
        self._closing = False
        self._last_emptied = 0.0
        """When a commit last took all rows that waited, by the event loop's clock."""
        self.failure: str | None = None
        """Why the last write failed; None if it did not."""
        self.commits = 0

    def is_full(self, workspace: str) -> bool:
        """Whether so much of the workspace's trail is unwritten that it gets no new work."""
        return self._waiting.audit_counts.get(workspace, 0) >= MOST_UNWRITTEN

    def is_behind(self, workspace: str) -> bool:
        """Whether its agent should not be listened to until more of its trail is written."""
        return self._waiting.is_behind(workspace)

    def admit(self, work: OpenWork) -> asyncio.Future[Row | None]:
        """Write new work. The future is done once it is durable; it gives None, or the row that has the id already, and
        then nothing was written. It raises Unavailable when the database refuses."""
        future: asyncio.Future[Row | None] = asyncio.get_running_loop().create_future()
        self._waiting.new[work.id] = work, future
        self._schedule_now()
        return future

    def save(self, work: OpenWork, callback: Callback) -> None:
        """Write the row, and call back once it is durable. A failing database is tried until it works."""
        self._waiting.dirty[work.id] = work
        self._call_when_durable(callback)

    def save_later(self, work: OpenWork) -> None:
        """Write the row soon; nothing depends on when."""
        self._waiting.dirty[work.id] = work
        self._schedule_later()

    def mark_delivered(self, request_id: str, at: int) -> None:
        """Store that a caller has read the end of the request."""
        self._waiting.delivered.setdefault(request_id, at)
        self._schedule_later()

    def append_audit(self, row: Values) -> None:
        """Write a row of the audit trail soon. Values in the order of `sql.AUDIT`."""
        self._waiting.append_audit(row)
        self._schedule_later()

    def save_epoch(self, workspace: str, newest: int, callback: Callback) -> None:
        """Store the newest epoch, and call back once it is durable."""
        epochs = self._waiting.epochs
        epochs[workspace] = max(newest, epochs.get(workspace, 0))
        self._call_when_durable(callback)

    async def run(self, unit: Callable[[Connection], T]) -> T:
        """Run `unit` in a transaction of its own, after all rows that were handed in before. Raises Unavailable."""
        await self.flush()
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, self._connection.run, unit)
        except Exception as error:
            raise _unavailable(error) from error

    async def read(self, unit: Callable[[Connection], T]) -> T:
        """Read what is on the disk, without waiting for rows that are not. Raises Unavailable."""
        try:
            return await self._database.run(unit)
        except Exception as error:
            raise _unavailable(error) from error

    async def flush(self) -> None:
        """Return once all that was handed in before is on the disk, or the database fails."""
        if self._waiting.has_pending or self._committing is not None:
            settled = asyncio.Event()
            self._waiting.flush_all = True
            self._call_when_durable(settled.set)
            while not settled.is_set() and self.failure is None:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(GATHER_SECONDS):
                        await settled.wait()

    async def close(self) -> None:
        """Write the rows that wait, then end the thread. Rows that a failing database refuses are lost, and logged."""
        self._closing = True
        while self._committing is not None:
            await asyncio.wait([self._committing])
        self._start_commit()
        while self._committing is not None:
            await asyncio.wait([self._committing])
            if self.failure is None:  # callbacks have handed in more
                self._start_commit()
        if self._handle is not None:
            self._handle.cancel()
        self._thread.submit(self._connection.close)
        self._thread.shutdown(wait=True)

    # ---------------------------------------------------------------- when

    def _call_when_durable(self, callback: Callback) -> None:
        self._waiting.callbacks.append(callback)
        self._schedule_now()

    def _schedule_now(self) -> None:
        """Commit after this turn of the event loop, so that its rows share a commit."""
        self._more_came = True
        if self._committing is None and self.failure is None and not self._scheduled:
            if self._handle is not None:
                self._handle.cancel()
            self._scheduled = True
            self._commit_when_quiet()

    def _commit_when_quiet(self) -> None:
        if self._more_came:
            self._more_came = False
            self._handle = asyncio.get_running_loop().call_soon(self._commit_when_quiet)
        else:
            self._start_commit()

    def _schedule_later(self) -> None:
        if self._committing is None and self._handle is None:
            self._handle = asyncio.get_running_loop().call_later(
                LULL_SECONDS if self._waiting.has_many_unawaited else GATHER_SECONDS, self._start_commit
            )

    def _start_commit(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
        self._handle, self._scheduled = None, False
        if self._committing is not None or not self._waiting.has_pending:
            return
        loop = asyncio.get_running_loop()
        written, now = self._waiting, loop.time()
        written.flush_all = written.flush_all or self._closing or now >= self._last_emptied + MAX_DELAY_SECONDS
        self._waiting = written.split_unawaited()
        if not self._waiting.has_pending:
            self._last_emptied = now
        try:
            commit = self._thread.submit(write_batch, self._connection.run, written.to_batch())
        except RuntimeError as error:  # it is closed: fail those that wait, for these rows are never written
            self._on_failed(error, written)
            return
        self._committing = loop.create_future()
        commit.add_done_callback(lambda done: loop.call_soon_threadsafe(self._on_committed, written, done))

    def _on_committed(self, written: WaitingWrite, commit: Future[dict[str, Row]]) -> None:
        error = commit.exception()
        if error is None:
            self.failure = None
            self.commits += 1
            known = commit.result()
            for name, (_, future) in written.new.items():
                if not future.done():
                    future.set_result(known.get(name))
            asyncio.get_running_loop().call_soon(_call_all, written.callbacks)  # after those that wait for an admission
        else:
            self._on_failed(error, written)
        busy, self._committing = self._committing, None
        if busy is not None:
            busy.set_result(None)
        self._schedule_next()

    def _on_failed(self, error: BaseException, written: WaitingWrite) -> None:
        self.failure = (str(error) or type(error).__name__).splitlines()[0]
        log.error("work_journal_failed", why=self.failure)
        for _, future in written.new.values():
            if not future.done():
                future.set_exception(_unavailable(error))
        self._waiting.merge_failed(written)

    def _schedule_next(self) -> None:
        if self._closing or not self._waiting.has_pending:
            return
        if self.failure is not None:
            self._handle = asyncio.get_running_loop().call_later(RETRY_SECONDS, self._start_commit)
        elif self._waiting.urgent:
            self._schedule_now()
        else:
            self._schedule_later()


def _call_all(calls: list[Callback]) -> None:
    for call in calls:
        try:
            call()
        except Exception as error:  # the other callbacks must run
            log.exception("work_journal_call_failed", why=repr(error))


def _unavailable(error: BaseException) -> Unavailable:
    log.error("work_database_failed", why=str(error))
    return Unavailable("the host's database does not answer", code="database_unavailable")
