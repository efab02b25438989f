"""Runtimes that an earlier process of the host has left running: adopted if they are meant to run, ended if not."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping

import structlog

from .driver import AgentRuntime, Driver, OrphanAdopter, StartFailed, StopFailed
from .workspace import Workspace

log = structlog.get_logger(__name__)


class Orphans:
    """The orphans of all drivers. The caller holds the lock of the workspace that it names."""

    def __init__(self, drivers: Mapping[str, Driver]) -> None:
        self._drivers = {name: driver for name, driver in drivers.items() if isinstance(driver, OrphanAdopter)}
        self._wanted: frozenset[str] = frozenset()
        self._unchecked: dict[str, OrphanAdopter] = {}
        """The wanted workspaces whose runtime has been neither adopted nor ended yet, with their drivers."""
        self.adopted: set[str] = set()
        """The workspaces whose runtime was adopted."""

    def expect(self, wanted: Collection[Workspace]) -> None:
        """Say which workspaces are meant to run: only their runtimes are adopted."""
        self._wanted = frozenset(one.id for one in wanted)
        self._unchecked = {one.id: self._drivers[one.driver] for one in wanted if one.driver in self._drivers}

    def may_run(self, workspace_id: str) -> bool:
        """Whether the workspace's runtime may still run, and could be adopted."""
        return workspace_id in self._unchecked

    async def open_sockets(self) -> None:
        """Open the host's sockets for all runtimes that may be adopted. A failure is met again when one is adopted."""
        for workspace_id, driver in self._unchecked.items():
            try:
                await driver.open_sockets(workspace_id)
            except OSError as error:
                log.warning("sockets_not_opened", workspace=workspace_id, why=str(error))

    async def adopt(self, workspace: Workspace) -> AgentRuntime | None:
        """Return the workspace's runtime, once it is ready; None if there is none, or if it cannot be adopted."""
        driver = self._unchecked.get(workspace.id)
        if driver is None:
            return None
        try:
            runtime = await driver.adopt(workspace.id, workspace.data_dir)
        except (StartFailed, OSError) as error:
            log.error("workspace_not_adopted", workspace=workspace.id, why=str(error))
            runtime = None
        self._unchecked.pop(workspace.id, None)
        if runtime is not None:
            self.adopted.add(workspace.id)
        return runtime

    async def end(self, workspace: Workspace) -> None:
        """End the workspace's runtime if it may still run. Raises StopFailed if it may go on."""
        driver = self._unchecked.get(workspace.id)
        if driver is None:
            return
        try:
            await driver.end_orphan(workspace.id)
        except (StartFailed, OSError) as error:
            raise StopFailed(f"workspace {workspace.id!r} could not be stopped: {error}") from error
        self._unchecked.pop(workspace.id, None)

    async def end_unwanted(self, lock: Callable[[str], asyncio.Lock], is_running: Callable[[str], bool]) -> bool:
        """End the runtimes of all workspaces that are not meant to run. Returns False if one of them may go on.

        `lock` returns a workspace's lock. What `is_running` knows of was started by this process, and goes on.
        """
        all_ended = True
        for name, driver in self._drivers.items():
            try:
                found = await driver.find_orphans()
            except (StartFailed, OSError) as error:
                log.error("orphans_not_found", driver=name, why=str(error))
                all_ended = False
                continue
            for workspace_id in sorted(found - self._wanted):
                async with lock(workspace_id):
                    all_ended &= is_running(workspace_id) or await _end(driver, workspace_id)
        return all_ended


async def _end(driver: OrphanAdopter, workspace_id: str) -> bool:
    try:
        await driver.end_orphan(workspace_id)
    except (StartFailed, OSError) as error:
        log.error("orphan_not_ended", workspace=workspace_id, why=str(error))
        return False
    log.info("orphan_ended", workspace=workspace_id)
    return True
