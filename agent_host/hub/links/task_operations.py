"""What may be asked about tasks, one function for each operation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import Field

from agent_common.protocol.hub import (
    MAX_SECONDS,
    CancelReason,
    TaskId,
    TaskMetadata,
    TaskSpec,
    TaskState,
    TaskUpdate,
)

from ..store import TaskFilter
from ..tasks import MOST_ROWS, Observation
from .caller import Caller
from .params import OfAgent, Operation, Params


class _Observe(OfAgent):
    task_id: TaskId
    spec: TaskSpec = TaskSpec()
    session_id: str | None = None
    ttl: float | None = Field(default=None, gt=0, le=MAX_SECONDS)


class _OfTask(OfAgent):
    task_id: TaskId


class _Update(_OfTask, TaskUpdate):
    pass


class _Checkpoint(_OfTask):
    value: Any


class _GetTask(Params):
    agent_id: str = ""
    """In whose name; empty: in that of each agent of the link."""
    task_id: TaskId


class _ListTasks(Params):
    agent_id: str = ""
    """In whose name; empty: that of the only agent of the link, or on an operator's link without agents nobody's."""
    session_id: str | None = None
    """Of a session in which the agent takes part; null: its own."""
    state: TaskState | None = None
    after: str = ""
    limit: int = Field(default=MOST_ROWS, ge=1, le=MOST_ROWS)


class _Cancel(Params):
    agent_id: str = ""
    """In whose name; empty: that of the only agent of the link, or on an operator's link without agents nobody's."""
    task_id: TaskId
    reason: CancelReason = ""


async def _observe(caller: Caller, params: _Observe) -> Any:
    owner = caller.agent(params.agent_id)
    seen = Observation(params.task_id, params.spec, params.session_id, params.ttl)
    return _shown(await caller.hub.tasks.observe(owner, seen))


async def _update(caller: Caller, params: _Update) -> Any:
    return _shown(await caller.hub.tasks.update(caller.agent(params.agent_id), params.task_id, params))


async def _get_task(caller: Caller, params: _GetTask) -> Any:
    return _shown(await caller.hub.tasks.get(caller.readers(params.agent_id), params.task_id))


async def _list_tasks(caller: Caller, params: _ListTasks) -> Any:
    reader = _acting(caller, params.agent_id)
    if reader is not None and params.session_id is not None:
        await caller.hub.tasks.require_part(reader, params.session_id)
    owner = reader if params.session_id is None else None
    query = TaskFilter(owner, params.session_id, params.state, params.after, params.limit)
    page = await caller.hub.tasks.list(query)
    return {"tasks": [_shown(one) for one in page.tasks], "next": page.next}


async def _checkpoint(caller: Caller, params: _Checkpoint) -> Any:
    await caller.hub.tasks.checkpoint(caller.agent(params.agent_id), params.task_id, params.value)


async def _read_checkpoint(caller: Caller, params: _OfTask) -> Any:
    return await caller.hub.tasks.read_checkpoint(caller.agent(params.agent_id), params.task_id)


async def _cancel(caller: Caller, params: _Cancel) -> Any:
    reader = _acting(caller, params.agent_id)
    return _shown(await caller.hub.tasks.cancel(reader, params.task_id, params.reason))


def _acting(caller: Caller, agent_id: str) -> str | None:
    """In whose name something is asked; None: an operator's. Raises AccessDeniedError."""
    return None if caller.reads_all and not agent_id else caller.agent(agent_id).agent_id


def _shown(task: TaskMetadata) -> dict[str, Any]:
    return task.model_dump(mode="json")


TASK_OPERATIONS: Mapping[str, Operation] = {
    "observe_task": (_Observe, _observe),
    "update_task": (_Update, _update),
    "get_task": (_GetTask, _get_task),
    "list_tasks": (_ListTasks, _list_tasks),
    "checkpoint_task": (_Checkpoint, _checkpoint),
    "read_task_checkpoint": (_OfTask, _read_checkpoint),
    "cancel_task": (_Cancel, _cancel),
}
"""By the name that a request has."""
