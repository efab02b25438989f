"""Bring back what was meant to run when the host ended, a few workspaces at a time, and end what was not.

It happens in the background: the host serves requests meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import structlog

from agent_common.errors import describe

from ..errors import NotFound, Unavailable
from .fleet import Fleet
from .hooks import RecordEvent

log = structlog.get_logger(__name__)
AT_ONCE = 4
"""Most workspaces that are started at a time: each start takes a processor for a second or more."""
_PAUSE_SECONDS = 30.0


class Restorer:
    """Adopts or starts each workspace once. What fails is then restarted as a runtime that has ended by itself."""

    def __init__(self, fleet: Fleet, workspace_ids: Sequence[str], record_event: RecordEvent) -> None:
        self._fleet = fleet
        self._workspace_ids = workspace_ids
        self._record_event = record_event
        self._places = asyncio.Semaphore(AT_ONCE)
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self.run(), name="restore")

    async def close(self) -> None:
        """Give up what has not been started yet. The next process of the host starts it."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def run(self) -> None:
        """Return once each workspace was tried, and no runtime is left that is not meant to run."""
        await self._fleet.orphans.open_sockets()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._end_orphans(), name="end-orphans")
            for workspace_id in self._workspace_ids:
                group.create_task(self._restore(workspace_id), name=f"restore-{workspace_id}")

    async def _end_orphans(self) -> None:
        """Try again until all have ended, because an engine may not answer yet while the machine boots."""
        while True:
            try:
                if await self._fleet.orphans.end_unwanted(self._fleet.lock, self._fleet.is_running):
                    return
            except Exception as error:  # noqa: BLE001  it must not end the restores beside it
                log.error("orphans_not_ended", why=describe(error))
            await asyncio.sleep(_PAUSE_SECONDS)

    async def _restore(self, workspace_id: str) -> None:
        async with self._places:
            try:
                if (await self._fleet.get(workspace_id)).desired_state != "running":
                    return  # stopped since
                await self._fleet.start(workspace_id)
            except (NotFound, Unavailable):
                return  # it was deleted, or the host is stopping
            except Exception as error:  # noqa: BLE001  a fault of one must not end the restores of the others
                log.error("workspace_not_restored", workspace=workspace_id, why=describe(error))
                self._record_event(workspace_id, "not_restored", describe(error))
                self._fleet.on_exit(workspace_id)
            else:
                kind = "adopted" if workspace_id in self._fleet.orphans.adopted else "restored"
                log.info(f"workspace_{kind}", workspace=workspace_id)
                self._record_event(workspace_id, kind, None)
