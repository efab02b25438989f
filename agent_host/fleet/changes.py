"""Change workspaces."""

from __future__ import annotations

from collections.abc import Mapping

from .driver import Driver
from .fleet import Fleet
from .workspace import Workspace, Workspaces, check_not_deleting
from .workspace_settings import check_passed, merge_settings


class WorkspaceChanges:
    """Changes what a caller may change of a workspace. A runtime that runs has it from its next start on."""

    def __init__(self, fleet: Fleet, workspaces: Workspaces, drivers: Mapping[str, Driver]) -> None:
        self._fleet = fleet
        self._workspaces = workspaces
        self._drivers = drivers

    async def change(
        self, workspace_id: str, *, team: str | None, settings: Mapping[str, str | None], channel_changes: bool
    ) -> Workspace:
        """Change a workspace, in order with its starts and stops.

        `team` None stays as it is. `settings`: those to change, None takes one away. `channel_changes`: its channel is
        changed too. Raises NotFound, and InvalidRequest if the driver passes no settings.
        """
        await self._fleet.get(workspace_id)
        async with self._fleet.lock(workspace_id):
            before = await self._fleet.get(workspace_id)
            check_not_deleting(before)
            merged = merge_settings(before.settings, settings)
            if driver := self._drivers.get(before.driver):
                check_passed(before.driver, driver, merged, self._workspaces.host_folder)
            runs = before.desired_state == "running"  # also one that this process has not adopted yet
            changed = runs and (channel_changes or merged != before.settings)
            return await self._workspaces.change(
                workspace_id,
                team=team or before.team,
                settings=merged,
                restart_needed=before.restart_needed or changed,
            )
