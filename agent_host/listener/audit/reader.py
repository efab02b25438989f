"""Read the audit trail."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, select

from ...database import work_audit


def read_audit(
    connection: Connection, workspace: str | None, request_id: str | None, after: int, limit: int
) -> list[dict[str, Any]]:
    """Return up to `limit` rows with ids above `after`, oldest first. None as workspace or request means all."""
    query = select(work_audit).where(work_audit.c.id > after).order_by(work_audit.c.id).limit(limit)
    if workspace is not None:
        query = query.where(work_audit.c.workspace == workspace)
    if request_id is not None:
        query = query.where(work_audit.c.request_id == request_id)
    return [dict(row) for row in connection.execute(query).mappings()]
