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

MAX_PAGE_CHARACTERS = 8 << 20
"""Characters of results after which a page ends, however many rows it may have."""
_ROWS_AT_ONCE = 16
_COLUMNS = [column for column in work.c if column.name != "request"]
"""What a record is made of: the request may have a megabyte, and is not shown."""
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


@dataclass(frozen=True, slots=True)
class WorkListing:
    """A page of work."""

    records: Sequence[LedgerRecord]
    next: str | None
    """`after` of the next page; None: there are no more."""


async def list_work(writer: LedgerWriter, query: WorkQuery) -> WorkListing:
    """Return a page, newest first. Raises InvalidRequest if there is no request `after`, and Unavailable."""
    await writer.flush()
    found = await writer.read(lambda connection: _select(connection, query))
    if found is None:
        text = "is no request of the ledger any more; begin again without it"
        raise InvalidRequest(f"after: {query.after!r} {text}", faults=[("after", text)])
    return found


def _select(connection: Connection, query: WorkQuery) -> WorkListing | None:
    """Return a page, or None if there is no request `after`."""
    order = work.c.submitted_at, work.c.request_id
    found = select(*_COLUMNS).order_by(order[0].desc(), order[1].desc()).limit(query.limit + 1)
    if query.workspace is not None:
        found = found.where(work.c.workspace == query.workspace)
    if query.status:
        found = found.where(work.c.status.in_([stored for shown in query.status for stored in STORED_AS[shown]]))
    if query.after is not None:
        last = connection.execute(select(*order).where(work.c.request_id == query.after)).one_or_none()
        if last is None:
            return None
        found = found.where(tuple_(*order) < tuple_(*last))
    records: list[LedgerRecord] = []
    size = 0
    for row in connection.execute(found, execution_options={"yield_per": _ROWS_AT_ONCE}).mappings():
        if len(records) == query.limit or size >= MAX_PAGE_CHARACTERS:
            return WorkListing(records, records[-1].request_id)
        records.append(record_from_row(row))
        size += len(row["result"] or "") + len(row["error"] or "")
    return WorkListing(records, None)
