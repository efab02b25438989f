"""Keeps the host's ledgers from growing for ever: the owned task that deletes what is old enough."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

import structlog

from agent_common.clock import Clock

from .database import HostDatabase, PruningLimits, pruning_steps, release_free_pages

log = structlog.get_logger(__name__)
PASS_SECONDS = 3600.0
"""Between two passes."""
PAUSE_SECONDS = 0.05
"""Between two steps: writers come first."""


class LedgerRetention:
    """Makes a pass at its start, and then one an hour, until it is closed."""

    def __init__(
        self,
        database: HostDatabase,
        clock: Clock,
        limits: PruningLimits,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self._database, self._clock, self._limits, self._sleep = database, clock, limits, sleep
        self._began = clock.now_ms(), clock.monotonic()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        if self._limits.days or self._limits.rows:
            self._task = asyncio.create_task(self._run(), name="retention")

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    async def sweep(self) -> dict[str, int]:
        """Delete all that is old enough now; how many rows of which table."""
        gone: dict[str, int] = {}
        for table, step in pruning_steps(self._limits, self._now()).items():
            while (deleted := await self._database.run(step)) is not None:
                gone[table] = gone.get(table, 0) + deleted
                if deleted:
                    await self._database.run(release_free_pages)
                await self._sleep(PAUSE_SECONDS)
        return {table: count for table, count in gone.items() if count}

    def _now(self) -> int:
        """By a clock that jumps ahead everything would be old: no more time has passed than this process has lived."""
        wall, monotonic = self._began
        return min(self._clock.now_ms(), wall + round((self._clock.monotonic() - monotonic) * 1000))

    async def _run(self) -> None:
        while True:
            try:
                gone = await self.sweep()
                if gone:
                    log.info("retention_pruned", **gone)
            except Exception as error:  # noqa: BLE001  a database that fails now may work in an hour
                log.error("retention_failed", why=str(error).splitlines()[0])
            await self._sleep(PASS_SECONDS)
