"""Deadlines for awaitables, including those that ignore cancellation."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable
from typing import Any

from ...ports import Progress

CANCEL_GRACE = 5.0
"""Seconds that a cancelled tool may take to clean up."""
MAX_EXTENSION = 10
"""How many times its deadline a tool may take that keeps reporting progress."""


class Expired(Exception):
    """Raised if the deadline passed first."""


class Deadline:
    """Runs awaitables with a deadline, and owns those that did not end when they were cancelled."""

    def __init__(self, grace: float = CANCEL_GRACE) -> None:
        self._grace = grace
        self._stuck: set[asyncio.Future[Any]] = set()

    async def run(self, work: Awaitable[Any], seconds: float, progress: Progress | None = None) -> Any:
        """Return the result of the work. Raises Expired if it takes longer than `seconds` since its start or its latest
        progress, or longer than `MAX_EXTENSION` times that, and any exception of the work."""
        task = asyncio.ensure_future(work)
        began = time.monotonic()
        end = began + seconds
        latest = began + seconds * MAX_EXTENSION
        try:
            while not task.done() and (left := end - time.monotonic()) > 0:
                await asyncio.wait({task}, timeout=left)
                if progress is not None and progress.at is not None:
                    end = min(max(end, progress.at + seconds), latest)
        except asyncio.CancelledError:
            await self._cancel(task)
            raise
        if task.done():
            return task.result()
        await self._cancel(task)
        raise Expired

    async def _cancel(self, task: asyncio.Future[Any]) -> None:
        task.cancel()
        await asyncio.wait({task}, timeout=self._grace)
        if not task.done():
            self._stuck.add(task)
        task.add_done_callback(self._discard)

    def _discard(self, task: asyncio.Future[Any]) -> None:
        self._stuck.discard(task)
        if not task.cancelled():
            task.exception()  # retrieved, so that asyncio does not warn
