"""The tasks of an agent, and those that it may see."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Literal

from ..protocol.hub import TaskMetadata, TaskSpec, TaskState

Ask = Callable[..., Awaitable[Any]]
"""Asks the hub in the agent's name: `ask(op, **params)`."""


class Tasks:
    """What an agent says it is doing. Each method raises NetworkError; repeated calls have one effect."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask

    async def observe(
        self, task_id: str, spec: TaskSpec | None = None, *, session_id: str | None = None, ttl: float | None = None
    ) -> TaskMetadata:
        """Show a task of the agent to the participants of a session; without a session only the agent sees it.

        `ttl`: seconds after which it expires; None: as the agent's rule says."""
        shown = (spec or TaskSpec()).model_dump(mode="json")
        found = await self._ask("observe_task", task_id=task_id, spec=shown, session_id=session_id, ttl=ttl)
        return TaskMetadata.model_validate(found)

    async def update(
        self,
        task_id: str,
        state: Literal["running", "completed", "failed"] | None = None,
        *,
        progress: Any = None,
        result: Any = None,
        error: str | None = None,
    ) -> TaskMetadata:
        """Say how far an own task has come, or that it is over."""
        params = {"state": state, "progress": progress, "result": result, "error": error}
        return TaskMetadata.model_validate(await self._ask("update_task", task_id=task_id, **params))

    async def get(self, task_id: str) -> TaskMetadata:
        """A task of its own, or of a session in which it takes part."""
        return TaskMetadata.model_validate(await self._ask("get_task", task_id=task_id))

    async def list(
        self, session_id: str | None = None, *, state: TaskState | None = None, after: str = "", limit: int = 100
    ) -> tuple[list[TaskMetadata], str | None]:
        """Its own tasks, or those of a session, in the order of their ids; and the id after which the next page
        begins."""
        page = await self._ask("list_tasks", session_id=session_id, state=state, after=after, limit=limit)
        return [TaskMetadata.model_validate(one) for one in page["tasks"]], page["next"]

    async def cancel(self, task_id: str, reason: str = "") -> TaskMetadata:
        """End an own task; or ask the owner of another one of a session to end it, which counts once."""
        return TaskMetadata.model_validate(await self._ask("cancel_task", task_id=task_id, reason=reason))

    async def checkpoint(self, task_id: str, value: Any) -> None:
        """Keep one JSON value, from which an own task may go on. A task that was not shown yet becomes the agent's."""
        await self._ask("checkpoint_task", task_id=task_id, value=value)

    async def read_checkpoint(self, task_id: str) -> Any:
        """What was kept of an own task; None: nothing was."""
        return await self._ask("read_task_checkpoint", task_id=task_id)
