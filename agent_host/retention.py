"""The background task that deletes old rows, so that the host's ledgers do not grow without limit."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

import structlog

from agent_common.clock import Clock

from .database import HostDatabase, PruningLimits, pruning_steps, release_free_pages

log = structlog.get_logger(__name__)
PASS_SECONDS = 3600.0
"""Time between two passes."""
PAUSE_SECONDS = 0.05
"""Pause between two steps, so that writers are served first."""


class LedgerRetention:
    """Deletes old rows when it starts and then once an hour, until it is closed."""

    def __init__(
        self,
        database: HostDatabase,
        clock: Clock,
        limits: PruningLimits,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self._database = database
        self._clock = clock
        self._limits = limits
        self._sleep = sleep
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
        """Make one pass. Returns the number of deleted rows by table."""
        gone: dict[str, int] = {}
        for table, step in pruning_steps(self._limits, self._now()):
            while (deleted := await self._database.run(step)) is not None:
                gone[table] = gone.get(table, 0) + deleted
                if deleted:
                    await self._database.run(release_free_pages)
                await self._sleep(PAUSE_SECONDS)
        return {table: count for table, count in gone.items() if count}

    def _now(self) -> int:
        """Return epoch milliseconds, advanced no further than the time since the start: if the wall clock jumped ahead,
        all rows would seem old."""
        wall, monotonic = self._began
        return min(self._clock.now_ms(), wall + round((self._clock.monotonic() - monotonic) * 1000))

    async def _run(self) -> None:
        while True:
            try:
                gone = await self.sweep()
                if gone:
                    log.info("retention_pruned", **gone)
            except Exception as error:  # noqa: BLE001  the database may work again in an hour
                log.error("retention_failed", why=str(error).splitlines()[0])
            await self._sleep(PASS_SECONDS)
