"""Read the audit trail."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, select

from ...database import work_audit

MAX_PAGE_CHARACTERS = 8 << 20
"""Characters of frames after which a page ends, however many rows it may have."""
_ROWS_AT_ONCE = 16


def read_audit(
    connection: Connection, workspace: str | None, request_id: str | None, after: int, limit: int
) -> tuple[list[dict[str, Any]], bool]:
    """Return up to `limit` rows with ids above `after`, oldest first, and whether there are more. None as workspace
    or request means all."""
    query = select(work_audit).where(work_audit.c.id > after).order_by(work_audit.c.id).limit(limit + 1)
    if workspace is not None:
        query = query.where(work_audit.c.workspace == workspace)
    if request_id is not None:
        query = query.where(work_audit.c.request_id == request_id)
    rows: list[dict[str, Any]] = []
    size = 0
    for row in connection.execute(query, execution_options={"yield_per": _ROWS_AT_ONCE}).mappings():
        if len(rows) == limit or size >= MAX_PAGE_CHARACTERS:
            return rows, True
        rows.append(dict(row))
        size += len(row["content"] or "") + len(row["detail"] or "") + len(row["audit_ref"] or "")
    return rows, False
