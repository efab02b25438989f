"""List the work of the ledger, newest first, a page at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, select, tuple_

from ...database import work
from ...errors import InvalidRequest
from .ledger_writer import LedgerWriter
from .rows import record_from_row
from .states import ShownStatus, Status
from .work import LedgerRecord

STORED_AS: dict[ShownStatus, tuple[Status, ...]] = {
    "queued": ("queued", "retry_wait"),
    "dispatched": ("dispatched",),
    "accepted": ("accepted",),
    "resulted": ("resulted", "delivered"),
    "dead": ("dead",),
    "cancelled": ("cancelled",),
    "expired": ("expired",),
}
"""The stored states behind each status that callers see."""


@dataclass(frozen=True, slots=True)
class WorkQuery:
    """What to list."""

    workspace: str | None = None
    """Only of this workspace; None: of all."""
    status: Sequence[ShownStatus] = ()
    """Only with one of these; empty: with any."""
    after: str | None = None
    """Begin after this request, the last of the page before."""
    limit: int = 100


async def list_work(writer: LedgerWriter, query: WorkQuery) -> list[LedgerRecord]:
    """Return a page, newest first. Raises InvalidRequest if there is no request `after`, and Unavailable."""
    await writer.flush()
    found = await writer.read(lambda connection: _select(connection, query))
    if found is None:
        text = "is no request of the ledger any more; begin again without it"
        raise InvalidRequest(f"after: {query.after!r} {text}", faults=[("after", text)])
    return found


def _select(connection: Connection, query: WorkQuery) -> list[LedgerRecord] | None:
    """Return a page, or None if there is no request `after`."""
    order = work.c.submitted_at, work.c.request_id
    found = select(work).order_by(order[0].desc(), order[1].desc()).limit(query.limit)
    if query.workspace is not None:
        found = found.where(work.c.workspace == query.workspace)
    if query.status:
        found = found.where(work.c.status.in_([stored for shown in query.status for stored in STORED_AS[shown]]))
    if query.after is not None:
        last = connection.execute(select(*order).where(work.c.request_id == query.after)).one_or_none()
        if last is None:
            return None
        found = found.where(tuple_(*order) < tuple_(*last))
    return [record_from_row(row) for row in connection.execute(found).mappings()]
