"""Restart runtimes that have ended by themselves, with growing pauses while they keep failing. Their data is kept."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import structlog

from agent_common.backoff import Backoff
from agent_common.clock import Clock
from agent_common.errors import describe

from ..errors import NotFound
from .fleet import Fleet

log = structlog.get_logger(__name__)
_BACKOFF = Backoff(first=1.0, most=30.0)
STEADY_SECONDS = 30.0
"""A runtime that has run for this long counts as healthy, and its pauses start small again."""


@dataclass(slots=True)
class _RestartState:
    failures: int = 0
    started: float | None = None
    """Monotonic time of the last restart; None before the first, and if it failed."""
    task: asyncio.Task[None] | None = None


class Supervisor:
    """Restarts failed runtimes through the fleet, unless the workspace has since been stopped, fenced or drained."""

    def __init__(
        self,
        fleet: Fleet,
        clock: Clock,
        may_start: Callable[[str], bool],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._fleet = fleet
        self._clock = clock
        self._may_start = may_start
        self._sleep = sleep
        self._restarts: dict[str, _RestartState] = {}
        fleet.on_exit = self.schedule_restart

    def schedule_restart(self, workspace_id: str) -> None:
        """Restart the workspace's runtime after a pause, because it has ended by itself."""
        restart = self._restarts.setdefault(workspace_id, _RestartState())
        if restart.task is not None and not restart.task.done():
            return
        restart.task = asyncio.create_task(self._restart(workspace_id, restart), name=f"restart-{workspace_id}")

    def forget(self, workspace_id: str) -> None:
        """Give up the restarts of a workspace that is deleted."""
        restart = self._restarts.pop(workspace_id, None)
        if restart is not None and restart.task is not None:
            restart.task.cancel()

    async def close(self) -> None:
        """Cancel all pending restarts."""
        tasks = [restart.task for restart in self._restarts.values() if restart.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _restart(self, workspace_id: str, restart: _RestartState) -> None:
        while True:
            if restart.started is not None and self._clock.monotonic() - restart.started >= STEADY_SECONDS:
                restart.failures = 0
            restart.failures += 1
            wait = _BACKOFF.pause(restart.failures)
            await self._sleep(wait)
            try:
                if not await self._is_missing(workspace_id) or not self._may_start(workspace_id):
                    return
                log.info("workspace_restarted", workspace=workspace_id, after_seconds=wait)
                restart.started = self._clock.monotonic()
                await self._fleet.start(workspace_id)
                if not await self._is_missing(workspace_id):  # else it has failed again since
                    return
            except Exception as error:  # noqa: BLE001  it failed again, the database does, or the host is closing
                log.error("workspace_restart_failed", workspace=workspace_id, why=describe(error))
                restart.started = None

    async def _is_missing(self, workspace_id: str) -> bool:
        """Whether the workspace is meant to run and does not. Its stored state may be older than its runtime's end: a
        database that failed at that moment has not recorded it."""
        try:
            wanted = (await self._fleet.get(workspace_id)).desired_state == "running"
        except NotFound:
            return False
        return wanted and not self._fleet.is_running(workspace_id)
