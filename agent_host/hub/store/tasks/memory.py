"""The tasks of a store that ends with the process."""

from __future__ import annotations

from ..rows import AuditRow, TaskCheckpoint, TaskFilter, TaskRow, TasksEnd
from .rows import ended_row, termination


class MemoryTasks:
    """Tasks and checkpoints by their ids."""

    def __init__(self) -> None:
        self.rows: dict[str, TaskRow] = {}
        self.checkpoints: dict[str, str] = {}
        self._live: dict[str, None] = {}

    def live(self) -> list[TaskRow]:
        """Those that are not over."""
        return [self.rows[name] for name in self._live]

    def is_taken(self, row: TaskRow) -> bool:
        """Whether another version than the one before this is there."""
        before = self.rows.get(row.task_id)
        return row.version != (before.version if before is not None else 0) + 1

    def write(self, row: TaskRow | TaskCheckpoint) -> None:
        """Write a change."""
        if isinstance(row, TaskCheckpoint):
            self.checkpoints[row.task_id] = row.checkpoint
            return
        self.rows[row.task_id] = row
        if row.completed_at is None:
            self._live[row.task_id] = None
        else:
            self._live.pop(row.task_id, None)

    def end(self, end: TasksEnd) -> list[AuditRow]:
        """End those of a session or agent. Returns what the audit says of them."""
        query = TaskFilter(end.owner_id, end.session_id)
        found = [one for one in self.live() if _matches(one, query)]
        rows = [ended_row(one, end) for one in found]
        for row in rows:
            self.write(row)
        return [termination(row, end.at) for row in rows]

    def list(self, query: TaskFilter) -> list[TaskRow]:
        """Those that match, in the order of their ids."""
        names = sorted(name for name in self.rows if name > query.after)
        found = (self.rows[name] for name in names)
        return [row for row in found if _matches(row, query)][: query.limit]


def _matches(row: TaskRow, query: TaskFilter) -> bool:
    wanted = (query.owner_id, query.session_id, query.state)
    has = (row.owner_id, row.session_id, row.state)
    return all(one is None or one == other for one, other in zip(wanted, has, strict=True))
