"""Tasks as rows."""

from __future__ import annotations

from pydantic_core import to_json

from agent_common.protocol.hub import TaskMetadata, end_task

from ..rows import AuditRow, TaskRow, TasksEnd


def task_row(task: TaskMetadata, version: int) -> TaskRow:
    """The row of a task."""
    return TaskRow(
        task_id=task.task_id,
        version=version,
        owner_id=task.owner_id,
        session_id=task.session_id,
        state=task.state,
        expires_at=task.expires_at,
        completed_at=task.completed_at,
        task=task.model_dump_json(),
    )


def ended_row(row: TaskRow, end: TasksEnd) -> TaskRow:
    """The row of a task that ends with its session or its owner."""
    return task_row(end_task(read_task(row), "expired", end.why, end.at), row.version + 1)


def read_task(row: TaskRow) -> TaskMetadata:
    """The task of a row."""
    return TaskMetadata.model_validate_json(row.task)  # our own rows


def termination(row: TaskRow, at: int) -> AuditRow:
    """The row of the audit about a task that is over."""
    detail = {"task_id": row.task_id, "state": row.state, "why": read_task(row).error}
    return AuditRow(at, "task_terminated", row.owner_id, row.session_id, to_json(detail).decode())
