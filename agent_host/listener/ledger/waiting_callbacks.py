"""Bound the callbacks of a workspace that wait: its agent may invent results without end, for a receiver that never
answers, and a result is kept for as long as its callback waits."""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import Connection, func, select, update

from ...database import task_results

MOST_WAITING = 1000
"""Callbacks of one workspace that may wait."""


def fail_excess(connection: Connection, workspaces: Iterable[str]) -> None:
    """Give up the newest callbacks of workspaces that have too many. Their results stay."""
    columns = task_results.c
    # The time and the coalesce make SQLite read the index of those that wait, and not all results of the workspace.
    pending = (columns.delivery_state == "pending") & (columns.delivery_next_at >= 0)
    for workspace in workspaces:
        mine = pending & (func.coalesce(columns.workspace, "") == workspace)
        first = connection.execute(select(columns.id).where(mine).order_by(columns.id).offset(MOST_WAITING).limit(1))
        excess = first.scalar()
        if excess is not None:
            why = f"too many callbacks wait: {MOST_WAITING} of this workspace"
            failed = {"delivery_state": "failed", "delivery_error": why, "delivery_next_at": None}
            connection.execute(update(task_results).where(mine & (columns.id >= excess)).values(failed))
