"""Tasks: what an agent is doing, so that others can see it and ask for its end. A task that is over never changes."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints
from pydantic_core import to_json

from ..base import Inbound, Peer, same_json
from .errors import ProtocolError

TaskState = Literal["created", "running", "completed", "failed", "expired", "cancelled"]
FINAL_STATES: frozenset[TaskState] = frozenset({"completed", "failed", "expired", "cancelled"})
TaskId = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}$")]
TaskError = Annotated[str, StringConstraints(max_length=2000)]
CancelReason = Annotated[str, StringConstraints(max_length=500)]
MAX_TASK_PART = 16 << 10
"""Most bytes of a task's spec, of its progress and of its result, each as JSON."""
MAX_CHECKPOINT = 256 << 10
"""Most bytes of a checkpoint as JSON."""


class TaskSpec(Inbound):
    """What is to be done."""

    title: str = Field(default="", max_length=200)
    """In a few words."""
    description: str = Field(default="", max_length=4000)
    """In a few sentences."""
    payload: dict[str, Any] = Field(default_factory=dict)
    """What the agent has been given for it."""
    capability: str = Field(default="", max_length=200)
    """Which of its capabilities it takes."""


class TaskUpdate(Inbound):
    """What its owner says about a task. A field that is left out changes nothing."""

    state: Literal["running", "completed", "failed"] | None = None
    """Null: it runs, if it is not over."""
    progress: Any = None
    """How far it has come, any JSON."""
    result: Any = None
    """What has come of it, any JSON."""
    error: TaskError | None = None
    """Why it has failed."""


class TaskMetadata(Peer):
    """A task, as all see it who may see it."""

    task_id: str
    owner_id: str
    """Id of the agent whose task it is."""
    spec: TaskSpec = TaskSpec()
    state: TaskState = "created"
    session_id: str | None = None
    """The session that it belongs to: its participants see it, and it ends with it. Null: only its owner sees it."""
    created_at: int
    """Epoch milliseconds, as all times."""
    started_at: int | None = None
    completed_at: int | None = None
    """When it was over."""
    expires_at: int | None = None
    """When it expires if it is not over by then; null: never."""
    last_progress_at: int | None = None
    progress: Any = None
    result: Any = None
    error: str | None = None
    """Why it is over, unless it was completed."""
    cancel_requested_by: tuple[str, ...] = ()
    """Ids of those participants who have asked for its end."""

    @property
    def is_over(self) -> bool:
        """Whether it has its final state."""
        return self.state in FINAL_STATES


def update_task(task: TaskMetadata, update: TaskUpdate, now: int) -> TaskMetadata:
    """The task after an update of its owner's. The last one may be repeated. Raises ProtocolError if it is over, or
    if a part is too large."""
    if task.is_over:
        if _is_repeated(task, update):
            return task
        raise ProtocolError(f"task_id: the task {task.task_id} is {task.state}, and stays so")
    state = update.state or "running"
    changes: dict[str, Any] = {"state": state, "started_at": task.started_at or now}
    for name in ("progress", "result"):
        if (value := getattr(update, name)) is not None:
            task_json(name, value)
            changes[name] = value
    if update.progress is not None:
        changes["last_progress_at"] = now
    if update.error is not None:
        changes["error"] = update.error
    if state in FINAL_STATES:
        changes["completed_at"] = now
    return task.model_copy(update=changes)


def _is_repeated(task: TaskMetadata, update: TaskUpdate) -> bool:
    """Whether the update may be the one by which the task was over: what it says is so. Updates before that one may
    have said more."""
    given = {name: value for name in ("progress", "result", "error") if (value := getattr(update, name)) is not None}
    return update.state == task.state and all(same_json(value, getattr(task, name)) for name, value in given.items())


def end_task(task: TaskMetadata, state: Literal["expired", "cancelled"], why: str, now: int) -> TaskMetadata:
    """The task once it is over without its owner's doing. One that is over already stays as it is."""
    if task.is_over:
        return task
    return task.model_copy(update={"state": state, "error": why, "completed_at": now})


def task_json(field: str, value: Any, most: int = MAX_TASK_PART) -> str:
    """The value as JSON. Raises ProtocolError, which names the field, if it is too large or is no JSON."""
    try:
        text = to_json(value).decode()
    except ValueError as error:
        raise ProtocolError(f"{field}: is not JSON: {error}") from error
    if (size := len(text.encode())) > most:
        raise ProtocolError(f"{field}: may have {most} bytes as JSON, and has {size}")
    return text
