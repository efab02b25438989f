"""The ledger of model calls: one row for each call, written in the background."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import structlog
from sqlalchemy import Connection, insert
from sqlalchemy.exc import DataError, DBAPIError, IntegrityError, StatementError

from agent_common.protocol import Usage

from ...budgets import Amount, Budgets, CallOrigin, Charge, HeldReserve
from ...database import HostDatabase, model_calls
from ...errors import Unavailable
from ..catalog.catalog import Operation

log = structlog.get_logger(__name__)

CallStatus = Literal["complete", "failed", "dropped", "client_gone", "interrupted"]
_BATCH = 500  # rows
_GATHER_SECONDS = 0.05  # so that many calls share one commit
_FLUSH_SECONDS = 10.0
_NO_COLUMNS = frozenset(("usage", "origin", "reserve_id"))


@dataclass(frozen=True, slots=True)
class CallRecord:
    """One model call that was sent to a provider, or that failed on the way."""

    request_id: str
    origin: CallOrigin
    operation: Operation
    model: str
    provider: str
    upstream_model: str
    streamed: bool
    status: CallStatus
    """`failed`: the provider refused or could not be reached; `dropped`: its answer broke off; `client_gone`: the
    client disconnected before the end; `interrupted`: the host was killed meanwhile."""
    http_status: int | None
    """The provider's status; None if it did not answer."""
    started_at: int
    """Epoch milliseconds."""
    duration_ms: int
    usage: Usage | None
    """None if the provider refused the call or could not be reached."""
    estimated: bool = False
    """Whether the usage is our estimate, because the provider did not report any before the call ended."""
    asked_model: str | None = None
    """The name that the agent used, if another model was asked in its place."""
    fallback_reason: str | None = None
    """Why another model was asked."""
    reserve_id: str | None = None
    """What was reserved for it in budgets; None: no budget concerns it."""

    @property
    def agent_id(self) -> str:
        return self.origin.agent_id

    @property
    def charge(self) -> Charge:
        """What it counts for in budgets."""
        return Charge(self.origin, self.started_at, Amount.of(self.usage), self.reserve_id)

    def row(self) -> dict[str, Any]:
        names = ("input", "output", "reasoning", "cache_read", "cache_write", "cost_usd")
        buckets = {name: getattr(self.usage, name) if self.usage else None for name in names}
        others = {name: getattr(self, name) for name in self.__slots__ if name not in _NO_COLUMNS}
        return {**others, **buckets, **self.origin.columns()}


class ModelCallLedger:
    """Queues rows in memory, and writes them in batches from one task, one transaction for each batch.

    A process that is killed loses the rows that are not written yet, usually those of the last 0.1 s, except those of
    calls that a budget concerns: what was reserved for them is in the database. An orderly stop loses none. If the
    database fails, the writer retries; once `limit` rows wait, new calls are refused, so that no call goes unrecorded.
    A row that the database can never accept is dropped and logged, so that the others can be written.
    """

    def __init__(
        self, database: HostDatabase, budgets: Budgets, limit: int = 10_000, retry_seconds: float = 1.0
    ) -> None:
        self._database = database
        self._budgets = budgets
        self._limit = limit
        self._retry_seconds = retry_seconds
        self._waiting: list[CallRecord] = []
        self._arrived = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._closing = asyncio.Event()
        self._writer: asyncio.Task[None] | None = None
        self._failure: str | None = None  # why the last write failed

    @property
    def failing(self) -> str | None:
        """Why rows cannot be written, or None if they can."""
        if self._writer is not None and self._writer.done() and not self._closing.is_set():
            return "the ledger's writer has ended"
        return self._failure

    def start(self) -> None:
        self._writer = asyncio.create_task(self._write_all(), name="ledger-writer")

    def check_capacity(self) -> None:
        """Raise Unavailable if the queue of rows is full."""
        if len(self._waiting) >= self._limit:
            raise Unavailable(
                "the usage ledger cannot be written and its queue is full, so no model call is accepted",
                code="ledger_full",
                headers={"retry-after": "5"},
            )

    def record(self, call: CallRecord, held: HeldReserve | None = None) -> None:
        """Queue the call's row for writing, and count it in its budgets. `held`: what was reserved for it."""
        self._waiting.append(call)
        self._budgets.charge(call.charge, held)
        self._idle.clear()
        self._arrived.set()

    async def flush(self, seconds: float = 2.0) -> None:
        """Wait until all rows are written, at most `seconds`."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._idle.wait(), seconds)

    async def close(self) -> None:
        """Write the queued rows, within ten seconds, and end the writer."""
        self._closing.set()
        self._arrived.set()
        if self._writer is not None:
            done, _ = await asyncio.wait([self._writer], timeout=_FLUSH_SECONDS)
            if not done:
                self._writer.cancel()
        if self._waiting:
            log.error("ledger_rows_lost", rows=len(self._waiting), why=self.failing)

    async def _write_all(self) -> None:
        while not self._closing.is_set():
            await self._arrived.wait()
            self._arrived.clear()
            await self._pause(_GATHER_SECONDS)
            await self._drain()
        await self._drain()

    async def _drain(self) -> None:
        """Write until the queue is empty. A failure is retried, unless the ledger is closing."""
        while self._waiting:
            if not await self._write_batch():
                if self._closing.is_set():
                    return
                await self._pause(self._retry_seconds)

    async def _pause(self, seconds: float) -> None:
        """Sleep, at most until the ledger closes."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._closing.wait(), seconds)

    async def _write_batch(self, size: int = _BATCH) -> bool:
        batch = self._waiting[:size]
        try:
            async with self._budgets.lock:
                await self._insert(batch)
                self._forget(batch)
        except Exception as error:  # noqa: BLE001  without the writer no call would be accepted any more
            why = (str(error) or type(error).__name__).splitlines()[0]
            if not _is_bad_value(error):
                self._failure = why
                log.error("ledger_write_failed", waiting=len(self._waiting), why=why)
                return False
            if len(batch) > 1:
                return await self._write_singly(len(batch))
            log.error("ledger_row_dropped", request_id=batch[0].request_id, agent_id=batch[0].agent_id, why=why)
            self._forget(batch)
        self._failure = None
        if not self._waiting:
            self._idle.set()
        return True

    async def _insert(self, batch: Sequence[CallRecord]) -> None:
        """Write rows and what they count for in budgets, in one transaction."""
        write_charges = self._budgets.writer()

        def write(connection: Connection) -> None:
            connection.execute(insert(model_calls), [call.row() for call in batch])
            write_charges(connection, [call.charge for call in batch])

        await self._database.run(write)

    def _forget(self, batch: Sequence[CallRecord]) -> None:
        """Take the oldest rows out of the queue."""
        del self._waiting[: len(batch)]
        self._budgets.written(len(batch))

    async def _write_singly(self, count: int) -> bool:
        for _ in range(count):
            if not await self._write_batch(1):
                return False
        return True


def _is_bad_value(error: Exception) -> bool:
    """Whether the driver or the database has refused a value, so that another attempt would fail as well."""
    if isinstance(error, DBAPIError):
        return isinstance(error, DataError | IntegrityError)
    return isinstance(error, StatementError | ArithmeticError | ValueError | TypeError)
