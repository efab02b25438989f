"""Group commit: what is submitted while one commit runs shares the next one.

One thread writes, in the order of submission; the event loop never waits for the disk. A commit that fails is tried
once more submission by submission, so that a conflict of one session fails no other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import structlog
from sqlalchemy import Connection
from sqlalchemy.exc import DataError, IntegrityError

from ...database import HostDatabase
from .rows import Conflict, EnvelopeRow, Row, Submission

log = structlog.get_logger(__name__)
GATHER_SECONDS = 0.02
"""Seconds that rows may wait which nobody waits for, such as acknowledgements."""
MOST_ROWS = 4000
"""Most rows of a commit, so that no commit takes long."""
_OF_ONE_ROW = (Conflict, IntegrityError, DataError, ValueError, TypeError, OverflowError)
"""Errors about what a row holds or changes. It is one agent's, and must not fail what others wait for."""
Write = Callable[[Connection, Sequence[Sequence[Row]]], list[Exception | None]]
"""Writes submissions within a transaction; what is wrong with each."""


class GroupCommit:
    """Writes submissions, many to a commit."""

    def __init__(self, database: HostDatabase, write: Write) -> None:
        self._connection = database.open_connection()
        self._write = write
        self._thread = ThreadPoolExecutor(1, "hub-writer")
        self._waiting: list[Submission] = []
        self._task: asyncio.Task[None] | None = None
        self._urgent = asyncio.Event()
        self.commits = 0

    def submit(self, submission: Submission) -> None:
        """Write rows with the next commit; soon, if somebody waits to be called back."""
        self._waiting.append(submission)
        if submission.on_written is not None:
            self._urgent.set()
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run())

    async def flush(self) -> None:
        """Return once all that was submitted before is written or refused."""
        if self._task is not None:
            written: asyncio.Future[None] = asyncio.get_running_loop().create_future()

            def on_written(_error: Exception | None) -> None:
                if not written.done():
                    written.set_result(None)

            self.submit(Submission((), on_written))
            await written

    async def close(self) -> None:
        """Write what waits, and end the thread."""
        while self._task is not None:
            self._urgent.set()
            await asyncio.wait([self._task])
        self._thread.submit(self._connection.close)
        self._thread.shutdown(wait=True)

    async def _run(self) -> None:
        try:
            while self._waiting:
                await self._gather()
                await self._commit()
        finally:
            self._task = None

    async def _gather(self) -> None:
        """Wait until somebody waits for a row or the time is up, then for those who submit in the same turn."""
        if not self._urgent.is_set():
            try:
                async with asyncio.timeout(GATHER_SECONDS):
                    await self._urgent.wait()
            except TimeoutError:
                return
        self._urgent.clear()
        await asyncio.sleep(0)

    async def _commit(self) -> None:
        batch = self._take()
        loop = asyncio.get_running_loop()
        errors = await loop.run_in_executor(self._thread, self._write_batch, [one.rows for one in batch])
        self.commits += 1
        for submission, error in zip(batch, errors, strict=True):
            if error is not None and submission.on_written is None:
                log.error("hub_rows_lost", why=str(error))
            elif submission.on_written is not None and not submission.is_withdrawn:
                submission.on_written(error)

    def _take(self) -> list[Submission]:
        """The next submissions, without those that were withdrawn."""
        taken: list[Submission] = []
        rows = 0
        for at, submission in enumerate(self._waiting):
            if rows >= MOST_ROWS:
                self._waiting = self._waiting[at:]
                self._urgent.set()
                return taken
            if not submission.is_withdrawn:
                taken.append(submission)
                rows += len(submission.rows)
        self._waiting = []
        return taken

    def _write_batch(self, batch: list[Sequence[Row]]) -> list[Exception | None]:
        """Write all in one commit, else each in its own. The errors, on the writer's thread."""
        try:
            return self._connection.run(lambda connection: self._write(connection, batch))
        except _OF_ONE_ROW:
            return self._write_singly(batch)
        except Exception as error:  # noqa: BLE001
            log.error("hub_write_failed", why=str(error).splitlines()[0])
            return [error] * len(batch)

    def _write_singly(self, batch: list[Sequence[Row]]) -> list[Exception | None]:
        """Write each in its own commit. What follows a conflict in its session is one too: a log has no gaps."""
        failed = set[str]()
        errors = list[Exception | None]()
        for rows in batch:
            sessions = {row.session_id for row in rows if isinstance(row, EnvelopeRow)}
            error = self._write_one(rows) if failed.isdisjoint(sessions) else Conflict()
            failed |= sessions if error is not None else set()
            errors.append(error)
        return errors

    def _write_one(self, rows: Sequence[Row]) -> Exception | None:
        try:
            return self._connection.run(lambda connection: self._write(connection, [rows]))[0]
        except IntegrityError as error:
            conflict = Conflict()
            conflict.__cause__ = error
            return conflict
        except Exception as error:  # noqa: BLE001
            return error
