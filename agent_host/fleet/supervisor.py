"""Starts again what has died, less and less often while it keeps dying. Its data is where it was."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import structlog

from agent_common.backoff import Backoff
from agent_common.clock import Clock

from ..errors import RequestError
from .fleet import Fleet

log = structlog.get_logger(__name__)
_BACKOFF = Backoff(first=1.0, most=30.0)
STEADY_SECONDS = 30.0
"""Up for so long it is taken for well."""


@dataclass(slots=True)
class _RestartState:
    failures: int = 0
    started: float | None = None
    """When it was started the last time, by the monotonic clock."""
    task: asyncio.Task[None] | None = None


class Supervisor:
    """Restarts by the fleet, so that turns are kept. Whoever is stopped, fenced or drained by then stays as it is."""

    def __init__(
        self,
        fleet: Fleet,
        clock: Clock,
        may_start: Callable[[str], bool],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._fleet, self._clock, self._may_start, self._sleep = fleet, clock, may_start, sleep
        self._restarts: dict[str, _RestartState] = {}
        fleet.on_exit = self.schedule_restart

    def schedule_restart(self, workspace_id: str) -> None:
        """It has ended by itself; it comes back after a while."""
        patient = self._restarts.setdefault(workspace_id, _RestartState())
        if patient.task is not None and not patient.task.done():
            return
        now = self._clock.monotonic()
        if patient.started is not None and now - patient.started >= STEADY_SECONDS:
            patient.failures = 0
        patient.task = asyncio.create_task(self._restart(workspace_id, patient), name=f"restart-{workspace_id}")

    async def close(self) -> None:
        """Nothing is restarted any more."""
        tasks = [patient.task for patient in self._restarts.values() if patient.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _restart(self, workspace_id: str, patient: _RestartState) -> None:
        while True:
            patient.failures += 1
            wait = _BACKOFF.pause(patient.failures)
            await self._sleep(wait)
            if (await self._fleet.get(workspace_id)).state != "failed" or not self._may_start(workspace_id):
                return
            log.info("workspace_restarted", workspace=workspace_id, after_seconds=wait)
            patient.started = self._clock.monotonic()
            try:
                await self._fleet.start(workspace_id)
            except RequestError as error:  # it is failed again, or the host closes
                log.error("workspace_restart_failed", workspace=workspace_id, why=error.message)
                continue
            if (await self._fleet.get(workspace_id)).state != "failed":  # else it has died in the meantime
                return
