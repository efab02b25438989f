"""The ledger of model calls: one row a call, written behind the call's back."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass
from typing import Any, Literal

import structlog
from sqlalchemy import Connection, insert
from sqlalchemy.exc import DataError, DBAPIError, IntegrityError, StatementError

from agent_common.protocol import Usage

from ...database import HostDatabase, model_calls
from ...errors import Unavailable
from ..catalog.catalog import Operation

log = structlog.get_logger(__name__)

CallStatus = Literal["complete", "failed", "dropped", "client_gone"]
_BATCH = 500  # rows
_GATHER_SECONDS = 0.05  # so that many calls share one commit
_FLUSH_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class CallRecord:
    """One model call that went, or tried to go, to a provider."""

    request_id: str
    agent_id: str
    operation: Operation
    model: str
    provider: str
    upstream_model: str
    streamed: bool
    status: CallStatus
    """`failed`: the provider refused or could not be reached; `dropped`: its answer ended half-way; `client_gone`:
    the client left before the end."""
    http_status: int | None
    """What the provider answered; None when it did not."""
    started_at: int
    """Epoch milliseconds."""
    duration_ms: int
    usage: Usage | None
    """None when the provider refused the call or could not be reached."""
    estimated: bool = False
    """The usage is our own estimate: the provider said none, or the client had gone before it did."""

    def row(self) -> dict[str, Any]:
        names = ("input", "output", "reasoning", "cache_read", "cache_write", "cost_usd")
        buckets = {name: getattr(self.usage, name) if self.usage else None for name in names}
        others = {name: getattr(self, name) for name in self.__slots__ if name != "usage"}
        return {**others, **buckets}


class ModelCallLedger:
    """Rows wait in memory until one task has written them, a batch a transaction.

    What may be lost: a process that is killed loses the rows that were not written yet, as a rule those of the last
    tenth of a second. A stop in good order loses none. A database that fails loses none while the process lives: the
    writer tries again, and once `limit` rows wait, new calls are refused, so that none goes unrecorded. A row that no
    database would take is dropped and logged, so that it holds up no other.
    """

    def __init__(self, database: HostDatabase, limit: int = 10_000, retry_seconds: float = 1.0) -> None:
        self._database = database
        self._limit = limit
        self._retry_seconds = retry_seconds
        self._waiting: list[CallRecord] = []
        self._arrived = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._closing = asyncio.Event()
        self._writer: asyncio.Task[None] | None = None
        self._failure: str | None = None  # the last write failed

    @property
    def failing(self) -> str | None:
        """Why rows are not written; None when they are."""
        if self._writer is not None and self._writer.done() and not self._closing.is_set():
            return "the ledger's writer has ended"
        return self._failure

    def start(self) -> None:
        self._writer = asyncio.create_task(self._write_all(), name="ledger-writer")

    def check_capacity(self) -> None:
        """Raises Unavailable when there is no room for another call's row."""
        if len(self._waiting) >= self._limit:
            raise Unavailable(
                "the usage ledger cannot be written and is full, so no model call is taken",
                code="ledger_full",
                headers={"retry-after": "5"},
            )

    def record(self, call: CallRecord) -> None:
        """Takes the row; it is written soon."""
        self._waiting.append(call)
        self._idle.clear()
        self._arrived.set()

    async def flush(self, seconds: float = 2.0) -> None:
        """Waits until no row waits, at most so long."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._idle.wait(), seconds)

    async def close(self) -> None:
        """Writes what waits, within ten seconds, and ends the writer."""
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
        """Writes until nothing waits; when the ledger closes, a failure is not tried again."""
        while self._waiting:
            if not await self._write_batch():
                if self._closing.is_set():
                    return
                await self._pause(self._retry_seconds)

    async def _pause(self, seconds: float) -> None:
        """Sleeps, unless the ledger closes."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._closing.wait(), seconds)

    async def _write_batch(self, size: int = _BATCH) -> bool:
        batch = self._waiting[:size]

        def write(connection: Connection) -> None:
            connection.execute(insert(model_calls), [call.row() for call in batch])

        try:
            await self._database.run(write)
        except Exception as error:  # noqa: BLE001  whatever it is: without the writer no call is taken any more
            why = (str(error) or type(error).__name__).splitlines()[0]
            if not _is_bad_value(error):
                self._failure = why
                log.error("ledger_write_failed", waiting=len(self._waiting), why=why)
                return False
            if len(batch) > 1:
                return await self._write_singly(len(batch))
            log.error("ledger_row_dropped", request_id=batch[0].request_id, agent_id=batch[0].agent_id, why=why)
        del self._waiting[: len(batch)]
        self._failure = None
        if not self._waiting:
            self._idle.set()
        return True

    async def _write_singly(self, count: int) -> bool:
        for _ in range(count):
            if not await self._write_batch(1):
                return False
        return True


def _is_bad_value(error: Exception) -> bool:
    """Another attempt would end the same: a value was refused, by the driver or by the database."""
    if isinstance(error, DBAPIError):
        return isinstance(error, DataError | IntegrityError)
    return isinstance(error, StatementError | ArithmeticError | ValueError | TypeError)
