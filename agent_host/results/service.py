"""Read results and wait for them, without asking the database again and again."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Row

from ..database import HostDatabase
from .query import FoundResults, ResultQuery, read_results, read_workspaces


class ResultService:
    """Reads results. `announce` each one once it is on disk."""

    def __init__(self, database: HostDatabase) -> None:
        self._database = database
        self._waiting: dict[str, set[asyncio.Event]] = {}
        """Those who wait for a task, by its id."""

    def announce(self, task_id: str) -> None:
        """Wake those who wait for the task."""
        for event in self._waiting.get(task_id, ()):
            event.set()

    async def page(self, query: ResultQuery) -> FoundResults:
        """Return a page, the newest first."""
        return await read_results(self._database, query)

    async def find(self, query: ResultQuery) -> Row[Any] | None:
        """Return the newest result that the query matches."""
        page = await read_results(self._database, query)
        return page.rows[0] if page.rows else None

    async def workspaces(self, query: ResultQuery) -> list[str]:
        """Return the workspaces whose results the query matches, at most two."""
        return await read_workspaces(self._database, query)

    async def wait(self, query: ResultQuery, seconds: float) -> Row[Any] | None:
        """Return the result of the query's task once there is one; None if there is none in time."""
        assert query.task_id is not None  # noqa: S101
        try:
            with self._watch(query.task_id) as announced:
                found = await self.find(query)  # however short the time is
                async with asyncio.timeout(seconds):
                    while found is None:
                        await announced.wait()
                        announced.clear()
                        found = await self.find(query)
                return found
        except TimeoutError:
            return None

    @contextmanager
    def _watch(self, task_id: str) -> Generator[asyncio.Event]:
        event = asyncio.Event()
        self._waiting.setdefault(task_id, set()).add(event)
        try:
            yield event
        finally:
            self._waiting[task_id].discard(event)
            if not self._waiting[task_id]:
                del self._waiting[task_id]
