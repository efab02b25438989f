"""Own background tasks: log what they raise, and cancel them when their owner closes."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from .telemetry import logger

log = logger(__name__)


class OwnedTasks:
    """Runs coroutines that synchronous code starts. `close` ends those that are left."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, work: Coroutine[Any, Any, None], name: str | None = None) -> asyncio.Task[None]:
        """Run it. An error that it raises is logged."""
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._on_done)
        return task

    async def close(self, seconds: float = 0.0) -> None:
        """Wait up to `seconds` for the tasks to end, then cancel the rest and wait for their end."""
        if seconds and self._tasks:
            await asyncio.wait(tuple(self._tasks), timeout=seconds)
        for task in tuple(self._tasks):
            task.cancel()
        while self._tasks:
            await asyncio.wait(tuple(self._tasks))

    def _on_done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("task_failed", task=task.get_name(), why=repr(error), exc_info=error)
