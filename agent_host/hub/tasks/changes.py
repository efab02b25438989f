"""Changes of tasks: each is made from what is stored, and written over that version or made anew.

Nothing of a task is kept in memory, so that a restart, or another hub on the same database, finds all there is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

from agent_common.protocol import same_json
from agent_common.protocol.hub import HubUnavailable, NetworkError, NotFoundError, TaskMetadata

from ..audit import HubAudit
from ..sessions import Posting, SessionTable
from ..store import Conflict, HubStore, Row, TaskCheckpoint, TaskRow, read_task, submit_and_wait, task_row

_ATTEMPTS = 10
"""How often a change is made anew because another one came first."""


class TaskEvent(NamedTuple):
    """What the hub says in the session of a task, together with a change of it."""

    type: str
    data: dict[str, Any]


Change = Callable[[TaskMetadata], tuple[TaskMetadata, TaskEvent | None]]
"""Makes a task what it becomes, and says what its session is told. Raises NetworkError."""


class TaskWriter:
    """Reads and changes tasks."""

    def __init__(self, store: HubStore, audit: HubAudit, table: SessionTable, posting: Posting) -> None:
        self._store = store
        self._audit = audit
        self._table = table
        self._posting = posting
        self._changing: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        """By task: of this hub's changes none meets another one, because its session would be read again for that."""

    async def read(self, task_id: str) -> TaskRow | None:
        """The row of a task as of its last change."""
        await self._store.flush()
        return await self._store.task(task_id)

    async def change(self, task_id: str, make: Change) -> TaskMetadata:
        """Change a task, and return it once that is durable. Raises NotFoundError, HubUnavailable, and what `make`
        raises."""
        async with self._changing.setdefault(task_id, asyncio.Lock()):
            for _ in range(_ATTEMPTS):
                row = await self.read(task_id)
                if row is None:
                    raise unknown(task_id)
                task = read_task(row)
                made, event = make(task)
                if _is_same(made, task) or await self._write(made, row.version + 1, event):
                    return made
        raise HubUnavailable(f"the task {task_id} cannot be changed now", retry_after=1.0)

    async def add(self, task: TaskMetadata, *more: Row) -> bool:
        """Write a new task. Returns False if there is one of that id meanwhile, or its session is over."""
        return await self._submit([task_row(task, 1), *more])

    async def keep(self, checkpoint: TaskCheckpoint) -> None:
        """Write a checkpoint. Raises HubUnavailable."""
        await self._submit([checkpoint])

    async def _write(self, task: TaskMetadata, version: int, event: TaskEvent | None) -> bool:
        """Write a change. Returns False if another one came first."""
        rows: list[Row] = [task_row(task, version)]
        if task.is_over:
            why = {"task_id": task.task_id, "state": task.state, "why": task.error}
            rows.append(self._audit.note("task_terminated", agent_id=task.owner_id, session_id=task.session_id, **why))
        if event is None or task.session_id is None:
            return await self._submit(rows)
        return await self._say(task.session_id, event, rows)

    async def _say(self, session_id: str, event: TaskEvent, rows: list[Row]) -> bool:
        """Write a change with what its session is told. If the session is over, so is the task."""
        try:
            session = await self._table.get(session_id)
        except HubUnavailable:
            raise
        except NetworkError:  # it was deleted, because it ended long ago
            return await self._submit(rows)
        posted: asyncio.Future[str | NetworkError] = asyncio.get_running_loop().create_future()

        def on_posted(result: str | NetworkError) -> None:
            if not posted.done():
                posted.set_result(result)

        self._posting.say(session, event.type, None, event.data, also=rows, on_posted=on_posted)
        return isinstance(await posted, str)

    async def _submit(self, rows: list[Row]) -> bool:
        try:
            await submit_and_wait(self._store, *rows)
        except Conflict:
            return False
        except Exception as error:
            raise HubUnavailable(f"the hub cannot store this: {error}", retry_after=1.0) from error
        return True


def _is_same(one: TaskMetadata, other: TaskMetadata) -> bool:
    return one is other or same_json(one.model_dump(mode="json"), other.model_dump(mode="json"))


def unknown(task_id: str) -> NotFoundError:
    """What is answered about a task that does not exist, or that the one who asks may not see."""
    return NotFoundError(f"there is no task {task_id}")
