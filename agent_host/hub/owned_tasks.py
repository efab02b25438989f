"""Tasks that the hub starts and ends with itself."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import structlog

log = structlog.get_logger(__name__)


class OwnedTasks:
    """Runs coroutines that nobody waits for, and ends them on close."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run it. What it raises is logged."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._on_done)
        return task

    async def close(self) -> None:
        """Cancel what still runs, and wait for its end."""
        for task in tuple(self._tasks):
            task.cancel()
        while self._tasks:
            await asyncio.wait(tuple(self._tasks))

    def _on_done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("hub_task_failed", why=repr(error), exc_info=error)
