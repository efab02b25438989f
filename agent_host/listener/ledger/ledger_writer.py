"""The one writer of the ledger: what is handed in at the same moment shares one commit (group commit).

Rows are taken from memory when a commit begins, so a request that changes twice meanwhile is written once. One thread
writes; the event loop never waits for the disk. Where much is going on, rows that nobody waits for (the trail above
all) do not hold up those that somebody waits for: they are written in the next lull, or with them when none comes.

What if we die here: a commit is whole or not at all, and nobody is told before it. What is only noted is written about
`GATHER` seconds later; a host that is killed before has lost nothing that was promised.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

import structlog
from sqlalchemy import Connection
from sqlalchemy.exc import DataError, IntegrityError

from ...database import HostDatabase
from ...errors import Unavailable
from ..dispatch.work import OpenWork
from . import sql
from .commit_batch import MOST_UNWRITTEN, Call, CommitBatch, Row, WaitingWrite
from .sql import Values

log = structlog.get_logger(__name__)
T = TypeVar("T")

GATHER = 0.05
"""Seconds that what nobody waits for may wait."""
LULL = 0.003
"""Seconds without anybody who waits, after which there is time for what nobody waits for, if it is much."""
PATIENCE = 0.02
"""Seconds without such a lull; then it goes along with what somebody waits for."""
RETRY = 1.0


class LedgerWriter:
    """Takes rows, writes them in order, tells when they are on the disk."""

    def __init__(self, database: HostDatabase) -> None:
        self._database, self._line = database, database.open_line()
        self._thread = ThreadPoolExecutor(1, "work-journal")
        self._waiting = WaitingWrite()
        self._handle: asyncio.Handle | None = None
        """Of the next commit."""
        self._coming = self._stirred = False
        """It comes once the event loop has come round without more for it."""
        self._busy: asyncio.Future[None] | None = None
        """A commit is on its way."""
        self._closing = False
        self._all_taken = 0.0
        """When a commit last left nothing behind, by the event loop's clock."""
        self.why: str | None = None
        """Why the last write failed; None when it did not."""
        self.commits = 0

    def full(self, workspace: str) -> bool:
        """Whether so much of the workspace's trail is unwritten that it gets no new work."""
        return self._waiting.shares.get(workspace, 0) >= MOST_UNWRITTEN

    def behind(self, workspace: str) -> bool:
        """Whether its agent should not be listened to until more of its trail is written."""
        return self._waiting.behind(workspace)

    def admit(self, work: OpenWork) -> asyncio.Future[Row | None]:
        """Durable once the future is done. It gives the row that has the id already, and then nothing was written.
        Raises Unavailable by the future when the database refuses."""
        future: asyncio.Future[Row | None] = asyncio.get_running_loop().create_future()
        self._waiting.new[work.id] = work, future
        self._soon()
        return future

    def save(self, work: OpenWork, call: Call) -> None:
        """Calls once it is durable. A database that fails is tried again until it does not."""
        self._waiting.dirty[work.id] = work
        self._when_durable(call)

    def note(self, work: OpenWork) -> None:
        """Is written soon; nothing depends on it."""
        self._waiting.dirty[work.id] = work
        self._later()

    def deliver(self, request_id: str, at: int) -> None:
        """A caller has read how the request has ended."""
        self._waiting.delivered.setdefault(request_id, at)
        self._later()

    def trail(self, row: Values) -> None:
        """Values in the order of `statements.AUDIT`."""
        self._waiting.note(row)
        self._later()

    def epoch(self, workspace: str, newest: int, call: Call) -> None:
        """Calls once it is durable."""
        epochs = self._waiting.epochs
        epochs[workspace] = max(newest, epochs.get(workspace, 0))
        self._when_durable(call)

    async def run(self, unit: Callable[[Connection], T]) -> T:
        """A transaction of its own, in its place in the order. Raises Unavailable."""
        await self.settle()
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, self._line.run, unit)
        except Exception as error:
            raise _refused(error) from error

    async def read(self, unit: Callable[[Connection], T]) -> T:
        """What is on the disk, without waiting for what is not. Raises Unavailable."""
        try:
            return await self._database.run(unit)
        except Exception as error:
            raise _refused(error) from error

    async def settle(self) -> None:
        """Returns when all that was handed in before is on the disk, or the database fails."""
        if self._waiting.anything or self._busy is not None:
            settled = asyncio.Event()
            self._waiting.whole = True
            self._when_durable(settled.set)
            while not settled.is_set() and self.why is None:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(GATHER):
                        await settled.wait()

    async def close(self) -> None:
        """Writes what waits, then ends the thread. What a failing database does not take is lost, and said."""
        self._closing = True
        while self._busy is not None:
            await asyncio.wait([self._busy])
        self._begin()
        while self._busy is not None:
            await asyncio.wait([self._busy])
            if self.why is None:  # those who were told have handed in more
                self._begin()
        if self._handle is not None:
            self._handle.cancel()
        self._thread.submit(self._line.close)
        self._thread.shutdown(wait=True)

    # ---------------------------------------------------------------- when

    def _when_durable(self, call: Call) -> None:
        self._waiting.calls.append(call)
        self._soon()

    def _soon(self) -> None:
        """After this turn of the event loop, so that what it brings goes together."""
        self._stirred = True
        if self._busy is None and self.why is None and not self._coming:
            if self._handle is not None:
                self._handle.cancel()
            self._coming = True
            self._still()

    def _still(self) -> None:
        if self._stirred:
            self._stirred = False
            self._handle = asyncio.get_running_loop().call_soon(self._still)
        else:
            self._begin()

    def _later(self) -> None:
        if self._busy is None and self._handle is None:
            self._handle = asyncio.get_running_loop().call_later(LULL if self._waiting.much else GATHER, self._begin)

    def _begin(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
        self._handle, self._coming = None, False
        if self._busy is not None or not self._waiting.anything:
            return
        loop = asyncio.get_running_loop()
        written, now = self._waiting, loop.time()
        written.whole = written.whole or self._closing or now >= self._all_taken + PATIENCE
        self._waiting = written.split()
        if not self._waiting.anything:
            self._all_taken = now
        try:
            commit = self._thread.submit(self._commit, written.batch())
        except RuntimeError as error:  # it is closed; nobody must wait for what will never be written
            self._failed(error, written)
            return
        self._busy = loop.create_future()
        commit.add_done_callback(lambda done: loop.call_soon_threadsafe(self._came_back, written, done))

    def _came_back(self, written: WaitingWrite, commit: Future[dict[str, Row]]) -> None:
        error = commit.exception()
        if error is None:
            self.why = None
            self.commits += 1
            known = commit.result()
            for name, (_, future) in written.new.items():
                if not future.done():
                    future.set_result(known.get(name))
            asyncio.get_running_loop().call_soon(_call_all, written.calls)  # behind those who asked whether it is new
        else:
            self._failed(error, written)
        busy, self._busy = self._busy, None
        if busy is not None:
            busy.set_result(None)
        self._go_on()

    def _failed(self, error: BaseException, written: WaitingWrite) -> None:
        self.why = (str(error) or type(error).__name__).splitlines()[0]
        log.error("work_journal_failed", why=self.why)
        for _, future in written.new.values():
            if not future.done():
                future.set_exception(_refused(error))
        self._waiting.put_back(written)

    def _go_on(self) -> None:
        if self._closing or not self._waiting.anything:
            return
        if self.why is not None:
            self._handle = asyncio.get_running_loop().call_later(RETRY, self._begin)
        elif self._waiting.urgent:
            self._soon()
        else:
            self._later()

    # ---------------------------------------------------------------- on the thread

    def _commit(self, batch: CommitBatch) -> dict[str, Row]:
        """Ids that are new, as nearly all are, need not be looked for first."""
        try:
            return self._line.run(lambda connection: _apply(connection, batch))
        except (DataError, IntegrityError, ArithmeticError):
            pass
        try:
            return self._line.run(lambda connection: _apply(connection, batch, look=True))
        except (DataError, IntegrityError, ArithmeticError):
            return self._singly(batch)

    def _singly(self, batch: CommitBatch) -> dict[str, Row]:
        """A value that no database takes must hold up no other: each row goes alone, and a bad one is left out."""
        known: dict[str, Row] = {}
        for name in ("admit", "change", "deliver", "trail", "epochs"):
            for row in getattr(batch, name):
                one = CommitBatch(**{name: [row]})
                try:
                    known.update(self._line.run(lambda connection, one=one: _apply(connection, one, look=True)))
                except (DataError, IntegrityError, ArithmeticError) as error:
                    log.error("work_row_dropped", kind=name, why=str(error).splitlines()[0])
        return known


def _apply(connection: Connection, batch: CommitBatch, *, look: bool = False) -> dict[str, Row]:
    """Gives the rows that had the ids of new work before. Without a look, a taken id is an IntegrityError."""
    known = sql.known_of(connection, batch.admit) if look else {}
    if fresh := [row for row in batch.admit if row[0] not in known]:
        sql.insert_new(connection, fresh)
    for rows, write in (
        (batch.change, sql.change),
        (batch.deliver, sql.deliver),
        (batch.epochs, sql.raise_epochs),
    ):
        if rows:
            write(connection, rows)
    sql.trail(connection, batch.trail)
    return known


def _call_all(calls: list[Call]) -> None:
    for call in calls:
        try:
            call()
        except Exception as error:  # the others must hear too
            log.exception("work_journal_call_failed", why=repr(error))


def _refused(error: BaseException) -> Unavailable:
    log.error("work_database_failed", why=str(error))
    return Unavailable("the host's database does not answer", code="database_unavailable")
