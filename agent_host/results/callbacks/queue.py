"""The queue of callbacks, in the rows of the results: the transaction that records a result queues its callback."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from sqlalchemy import Connection, Update, func, select, update

from ...database import HostDatabase, task_results
from ..records import render_body

_PENDING = task_results.c.delivery_state == "pending"
_COLUMNS = ("id", "workspace", "task_id", "delivery", "delivery_url", "delivery_host", "delivery_attempts")


@dataclass(frozen=True, slots=True)
class Callback:
    """A callback that is due, in the order of `_COLUMNS`. Without its result, which may be as large as a frame."""

    row_id: int
    workspace: str
    task_id: str
    delivery: str
    """The same for every attempt."""
    url: str
    host: str
    attempts: int
    """Attempts that have failed."""


class CallbackQueue:
    """Reads what is due, and writes what became of it."""

    def __init__(self, database: HostDatabase) -> None:
        self._database = database

    async def forget_future(self, latest: int) -> None:
        """Make due what would be due only after `latest`, because the wall clock has gone back."""
        late = update(task_results).where(_PENDING & (task_results.c.delivery_next_at > latest))
        await self._write(late.values(delivery_next_at=latest))

    async def due(
        self, now: int, limit: int, *, running: Collection[int], busy_hosts: Collection[str], busy: Collection[str]
    ) -> list[Callback]:
        """Return callbacks that are due, the one that has waited longest first. Those that run are left out, and those
        to `busy_hosts` and of the workspaces `busy`."""
        table = task_results
        query = select(*(table.c[name] for name in _COLUMNS)).where(_PENDING & (table.c.delivery_next_at <= now))
        for column, left_out in ((table.c.id, running), (table.c.delivery_host, busy_hosts), (table.c.workspace, busy)):
            if left_out:
                query = query.where(column.not_in(left_out))
        query = query.order_by(table.c.delivery_next_at).limit(limit)
        return await self._database.run(lambda connection: [Callback(*row) for row in connection.execute(query)])

    async def body(self, callback: Callback) -> bytes | None:
        """Return the row of the result, the same bytes for every attempt; None if it was deleted meanwhile."""
        query = select(task_results).where(task_results.c.id == callback.row_id)
        row = await self._database.run(lambda connection: connection.execute(query).first())
        return render_body(row) if row is not None else None

    async def next_due(self, now: int) -> int | None:
        """Return when the next callback is due after `now`; None if none waits for its time."""
        column = task_results.c.delivery_next_at
        query = select(func.min(column)).where(_PENDING & (column > now))
        return await self._database.run(lambda connection: connection.execute(query).scalar())

    async def mark_delivered(self, callback: Callback) -> None:
        await self._update(callback, delivery_state="delivered", delivery_error=None, delivery_next_at=None)

    async def mark_failed(self, callback: Callback, error: str) -> None:
        await self._update(callback, delivery_state="failed", delivery_error=error, delivery_next_at=None)

    async def retry_at(self, callback: Callback, at: int, error: str) -> None:
        await self._update(callback, delivery_next_at=at, delivery_error=error)

    async def _update(self, callback: Callback, **values: str | int | None) -> None:
        """Write the outcome of one more attempt, unless the workspace was deleted meanwhile."""
        change = update(task_results).where((task_results.c.id == callback.row_id) & _PENDING)
        whole = {"delivery_attempts": callback.attempts + 1, **values}
        await self._write(change.values(whole))

    async def _write(self, statement: Update) -> None:
        def run(connection: Connection) -> None:
            connection.execute(statement)

        await self._database.run(run)
