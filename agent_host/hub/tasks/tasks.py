"""Tasks: observed, updated and ended; seen by their owner, the participants of their session, and operators."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any
from weakref import WeakValueDictionary

from pydantic_core import from_json  # noqa: TID251  our own rows

from agent_common.clock import Clock
from agent_common.owned_tasks import OwnedTasks
from agent_common.protocol import same_json
from agent_common.protocol.hub import (
    EV_TASK_CANCEL_REQUEST,
    EV_TASK_CANCELLED,
    EV_TASK_EXPIRED,
    MAX_CHECKPOINT,
    AccessDeniedError,
    HubUnavailable,
    NetworkError,
    NotFoundError,
    ProtocolError,
    RateLimited,
    SessionInfo,
    TaskMetadata,
    TaskSpec,
    TaskUpdate,
    end_task,
    task_json,
    update_task,
)

from ..agents import Agent
from ..deadlines import Deadlines
from ..limits import HubLimits
from ..queries import Queries
from ..store import HubStore, TaskCheckpoint, TaskFilter, read_task
from .changes import TaskEvent, TaskWriter, unknown

MOST_ROWS = 100
_NO_SPEC = TaskSpec()
_AGAIN_MS = 1000
"""After which what could not be written is tried again."""


@dataclass(frozen=True, slots=True)
class Observation:
    """What an agent says when it shows a task."""

    task_id: str
    spec: TaskSpec = _NO_SPEC
    session_id: str | None = None
    ttl: float | None = None
    """Seconds after which it expires; None: as the owner's rule says."""


@dataclass(frozen=True, slots=True)
class TaskPage:
    """A part of a list of tasks."""

    tasks: Sequence[TaskMetadata]
    next: str | None
    """The id after which the next page begins; None: this is the end."""


class Tasks:
    """The tasks of all agents. `readers`: ids of the agents in whose names something is read; None: an operator's."""

    def __init__(
        self,
        *,
        store: HubStore,
        clock: Clock,
        limits: HubLimits,
        writer: TaskWriter,
        queries: Queries,
        owned_tasks: OwnedTasks,
    ) -> None:
        self._store = store
        self._clock = clock
        self._limits = limits
        self._writer = writer
        self._queries = queries
        self._owned_tasks = owned_tasks
        self.deadlines = Deadlines(clock, self._on_due)
        self._most_watched = limits.idle_deadlines
        """So many deadlines make the hub look which tasks are over meanwhile."""
        self._adding: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        """By owner: two that are added at once would both count the others alone."""

    async def load(self) -> None:
        """Remember when the tasks expire that are not over."""
        for task_id, due_at in await self._store.task_deadlines():
            self.deadlines.schedule(task_id, due_at)

    # ---------------------------------------------------------------- what owners say

    async def observe(self, owner: Agent, seen: Observation) -> TaskMetadata:
        """Show a task. The same again is no other one. Raises NetworkError."""
        task_json("spec", seen.spec)
        if seen.session_id is not None:
            info = await self.require_part(owner.agent_id, seen.session_id)
            if info.is_over:
                raise ProtocolError(f"the session {seen.session_id} is {info.state}: {info.close_reason}")
        async with self._adding.setdefault(owner.agent_id, asyncio.Lock()):
            row = await self._writer.read(seen.task_id)
            if row is None:
                return await self._add(owner, seen)
        if row.owner_id != owner.agent_id:
            raise ProtocolError(f"task_id: {seen.task_id} is taken; choose another")
        until = self._expiry(owner, seen)
        task = await self._writer.change(seen.task_id, lambda task: (_shown(task, seen, until), None))
        if task != read_task(row):
            self._watch(task)
        return task

    def _expiry(self, owner: Agent, seen: Observation) -> int | None:
        ttl = owner.rule.task_ttl if seen.ttl is None else seen.ttl
        return self._clock.now_ms() + round(ttl * 1000) if ttl else None

    def _watch(self, task: TaskMetadata) -> None:
        """See to it that a task expires. An earlier look does no harm."""
        if task.expires_at is None or task.is_over:
            return
        self.deadlines.schedule(task.task_id, task.expires_at)
        if len(self.deadlines) > self._most_watched:
            self._most_watched = 2 * len(self.deadlines)
            self._owned_tasks.start(self._forget_finished())

    async def _forget_finished(self) -> None:
        """Forget when those tasks expire that are over: their owners say how many there are, and for how long."""
        watched = self.deadlines.subjects()
        self.deadlines.drop(watched - {task_id for task_id, _ in await self._store.task_deadlines()})
        self._most_watched = 2 * len(self.deadlines) + self._limits.idle_deadlines

    async def update(self, owner: Agent, task_id: str, update: TaskUpdate) -> TaskMetadata:
        """Say how far a task has come, or that it is over. Raises NetworkError."""
        await self._own(owner, task_id)
        return await self._writer.change(task_id, lambda task: (update_task(task, update, self._clock.now_ms()), None))

    async def checkpoint(self, owner: Agent, task_id: str, value: Any) -> None:
        """Keep where a task may go on, in place of what was kept before. A task that was not shown yet becomes the
        owner's by that. Raises NetworkError."""
        row = TaskCheckpoint(task_id, task_json("value", value, MAX_CHECKPOINT))
        async with self._adding.setdefault(owner.agent_id, asyncio.Lock()):
            if await self._writer.read(task_id) is None:
                await self._add(owner, Observation(task_id), row)
                return
        task = await self._own(owner, task_id)
        if task.is_over:
            raise ProtocolError(f"task_id: the task {task_id} is {task.state}, and stays so")
        await self._writer.keep(row)

    async def read_checkpoint(self, owner: Agent, task_id: str) -> Any:
        """What was kept last; None: nothing was. Raises NetworkError."""
        await self._own(owner, task_id)
        kept = await self._store.checkpoint(task_id)
        return None if kept is None else from_json(kept)

    async def _own(self, owner: Agent, task_id: str) -> TaskMetadata:
        task = await self.get([owner.agent_id], task_id)
        if task.owner_id != owner.agent_id:
            raise AccessDeniedError(f"task_id: {task_id} is another agent's")
        return task

    async def _add(self, owner: Agent, seen: Observation, *more: TaskCheckpoint) -> TaskMetadata:
        most = min(owner.rule.max_concurrent_tasks or self._limits.live_tasks, self._limits.live_tasks)
        if await self._store.count_live_tasks(owner.agent_id) >= most:
            raise RateLimited(f"{owner.name} has {most} tasks that are not over, and may have no more")
        task = TaskMetadata(
            task_id=seen.task_id,
            owner_id=owner.agent_id,
            spec=seen.spec,
            session_id=seen.session_id,
            created_at=self._clock.now_ms(),
            expires_at=self._expiry(owner, seen),
        )
        if not await self._writer.add(task, *more):
            raise ProtocolError(f"task_id: {seen.task_id} is taken, or its session is over")
        self._watch(task)
        return task

    # ---------------------------------------------------------------- what others see

    async def get(self, readers: Collection[str] | None, task_id: str) -> TaskMetadata:
        """A task. Raises NotFoundError also if none of the readers may see it."""
        row = await self._writer.read(task_id)
        if row is None:
            raise unknown(task_id)
        task = read_task(row)
        if readers is None or task.owner_id in readers or await self._is_of_session(readers, task):
            return task
        raise unknown(task_id)

    async def _is_of_session(self, readers: Collection[str], task: TaskMetadata) -> bool:
        if task.session_id is None:
            return False
        try:
            info = await self._queries.info(None, task.session_id)
        except NetworkError:  # it was deleted, because it ended long ago
            return False
        return any(info.has(one) for one in readers)

    async def require_part(self, agent_id: str, session_id: str) -> SessionInfo:
        """A session in which an agent takes part. Raises AccessDeniedError or NotFoundError."""
        info = await self._queries.info([agent_id], session_id)
        if not info.has(agent_id):
            raise AccessDeniedError(f"{agent_id} does not take part in the session {session_id}")
        return info

    async def list(self, query: TaskFilter) -> TaskPage:
        """Tasks in the order of their ids."""
        await self._store.flush()
        found = await self._store.tasks(replace(query, limit=query.limit + 1))
        shown: list[TaskMetadata] = []
        size = 0
        for row in found:
            size += len(row.task.encode())
            if shown and (size > self._limits.page_bytes or len(shown) == query.limit):
                return TaskPage(shown, shown[-1].task_id)
            shown.append(read_task(row))
        return TaskPage(shown, None)

    # ---------------------------------------------------------------- how they end

    async def cancel(self, reader: str | None, task_id: str, reason: str) -> TaskMetadata:
        """End a task: its owner and an operator (None) do so, a participant of its session asks its owner to, once. One
        that is over stays as it is. Raises NetworkError."""
        seen = await self.get(None if reader is None else [reader], task_id)
        if reader is None or reader == seen.owner_id:
            return await self._writer.change(task_id, lambda task: self._cancelled(task, reason))
        return await self._writer.change(task_id, lambda task: _asked(task, reader, reason))

    def _cancelled(self, task: TaskMetadata, reason: str) -> tuple[TaskMetadata, TaskEvent]:
        event = TaskEvent(EV_TASK_CANCELLED, {"task_id": task.task_id, "reason": reason})
        return end_task(task, "cancelled", reason, self._clock.now_ms()), event

    def _on_due(self, task_id: str) -> None:
        self._owned_tasks.start(self._expire(task_id))

    async def _expire(self, task_id: str) -> None:
        try:
            await self._writer.change(task_id, self._expired)
        except NotFoundError:
            return
        except HubUnavailable:
            self.deadlines.schedule(task_id, self._clock.now_ms() + _AGAIN_MS)

    def _expired(self, task: TaskMetadata) -> tuple[TaskMetadata, TaskEvent | None]:
        now = self._clock.now_ms()
        reason = "its time is over"
        if task.expires_at is None or task.expires_at > now:
            return task, None
        return end_task(task, "expired", reason, now), TaskEvent(
            EV_TASK_EXPIRED, {"task_id": task.task_id, "reason": reason}
        )


def _shown(task: TaskMetadata, seen: Observation, until: int | None) -> TaskMetadata:
    """The task once its owner has shown it, maybe again, or after its first checkpoint. `until`: when it expires."""
    if task.session_id == seen.session_id and same_json(task.spec.model_dump(), seen.spec.model_dump()):
        return task
    if (task.spec, task.session_id, task.state) == (_NO_SPEC, None, "created"):
        return task.model_copy(update={"spec": seen.spec, "session_id": seen.session_id, "expires_at": until})
    raise ProtocolError(f"task_id: you have shown {task.task_id} with another spec or session; choose another id")


def _asked(task: TaskMetadata, peer: str, reason: str) -> tuple[TaskMetadata, TaskEvent | None]:
    """The task once a participant has asked for its end."""
    if task.is_over or peer in task.cancel_requested_by:
        return task, None
    data = {"task_id": task.task_id, "reason": reason, "requested_by": peer}
    asked = task.model_copy(update={"cancel_requested_by": (*task.cancel_requested_by, peer)})
    return asked, TaskEvent(EV_TASK_CANCEL_REQUEST, data)
