"""What calls under way may use, as rows: written before a call, deleted with its row in the ledger.

A host that is killed in between leaves the row. The next start writes it to the ledger as a call that was interrupted
and has used all that was reserved, so that a charge may be too high but is never lost.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, delete, insert, select

from ..database import HostDatabase, budgets, call_reserves, model_calls
from .account import Account
from .amount import Amount
from .origin import CallOrigin
from .spending import Charge, add_charges

INTERRUPTED = "interrupted"
"""The status in the ledger of a call during which the host was killed."""


@dataclass(frozen=True, slots=True)
class Reserve:
    """The most that one call may use, and what its row in the ledger needs if the host is killed."""

    origin: CallOrigin
    request_id: str
    operation: str
    model: str
    provider: str
    upstream_model: str
    streamed: bool
    started_at: int
    """Epoch milliseconds."""
    input: int
    """Most tokens of the request."""
    output: int
    """Most tokens of the answer."""
    cost_usd: float | None
    """None: the model has no known price."""
    id: str = field(default_factory=lambda: f"res_{secrets.token_hex(12)}")

    @property
    def amount(self) -> Amount:
        return Amount(self.cost_usd or 0.0, self.input + self.output)

    def row(self) -> dict[str, Any]:
        own = {name: getattr(self, name) for name in self.__slots__ if name != "origin"}
        return {**own, **self.origin.columns()}


class HeldReserve:
    """A reserve that is held in some budgets until it is released."""

    def __init__(self, reserve: Reserve, accounts: Sequence[Account]) -> None:
        self.id = reserve.id
        self._amount = reserve.amount
        self._accounts = accounts
        for account in accounts:
            account.reserved = account.reserved.plus(reserve.amount)

    def release(self) -> None:
        """Release it; once."""
        for account in self._accounts:
            account.reserved = account.reserved.minus(self._amount)
        self._accounts = ()


class ReserveLog:
    """Writes and deletes the rows in order, many to a commit. `close` it before the database."""

    def __init__(self, database: HostDatabase) -> None:
        self._database = database
        self._waiting: list[tuple[Reserve | str, asyncio.Future[None]]] = []
        self._task: asyncio.Task[None] | None = None

    async def add(self, reserve: Reserve) -> None:
        """Write a row. Returns once it is on disk. Raises SQLAlchemyError."""
        await self._submit(reserve)

    def remove(self, reserve: Reserve) -> None:
        """Delete the row soon, because the call was never made. A row that stays counts as a call at the next start."""
        self._submit(reserve.id).add_done_callback(lambda done: done.cancelled() or done.exception())

    async def close(self) -> None:
        while self._task is not None:
            await asyncio.wait([self._task])

    def _submit(self, change: Reserve | str) -> asyncio.Future[None]:
        written: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((change, written))
        if self._task is None:
            self._task = asyncio.create_task(self._write_all(), name="reserve-writer")
        return written

    async def _write_all(self) -> None:
        try:
            while self._waiting:
                batch = self._waiting
                self._waiting = []
                error = await self._write([change for change, _ in batch])
                for _, written in batch:
                    if written.done():  # its call was cancelled
                        continue
                    written.set_result(None) if error is None else written.set_exception(error)
        finally:
            self._task = None

    async def _write(self, changes: Sequence[Reserve | str]) -> Exception | None:
        rows = [change.row() for change in changes if isinstance(change, Reserve)]
        gone = [change for change in changes if isinstance(change, str)]

        def write(connection: Connection) -> None:
            if rows:
                connection.execute(insert(call_reserves), rows)
            delete_reserves(connection, gone)

        try:
            await self._database.run(write)
        except Exception as error:  # noqa: BLE001  each of those who wait gets it
            return error
        return None


def delete_reserves(connection: Connection, ids: Collection[str]) -> None:
    if ids:
        connection.execute(delete(call_reserves).where(call_reserves.c.id.in_(ids)))


def charge_left_reserves(connection: Connection) -> int:
    """Write the rows that a killed host has left to the ledger, and charge them. Returns their number."""
    left = [dict(row) for row in connection.execute(select(call_reserves)).mappings()]
    if not left:
        return 0
    connection.execute(insert(model_calls), [_interrupted_call(row) for row in left])
    known = frozenset(connection.execute(select(budgets.c.scope)).scalars())
    add_charges(connection, _charges(left), known)
    delete_reserves(connection, [row["id"] for row in left])
    return len(left)


def _interrupted_call(row: dict[str, Any]) -> dict[str, Any]:
    others = {"status": INTERRUPTED, "http_status": None, "duration_ms": 0, "estimated": True}
    unknown = {"reasoning": 0, "cache_read": 0, "cache_write": 0}
    return {**{name: value for name, value in row.items() if name != "id"}, **others, **unknown}


def _charges(rows: Iterable[dict[str, Any]]) -> list[Charge]:
    return [
        Charge(
            CallOrigin(row["agent_id"], row["team"], subagent=row["subagent"]),
            row["started_at"],
            Amount(row["cost_usd"] or 0.0, row["input"] + row["output"]),
        )
        for row in rows
    ]
