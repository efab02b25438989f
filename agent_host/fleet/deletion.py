"""Delete workspaces, in steps that may be repeated: what a host that dies leaves, its next start finishes."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping

import structlog

from ..access import TokenStore
from ..errors import AgentRuntimeError, Conflict, RequestError
from .driver import Driver
from .fleet import Fleet
from .folder_deletion import FolderDeleter
from .workspace import Workspace, WorkspaceQuery, Workspaces

log = structlog.get_logger(__name__)


class DeletionFailed(RequestError):
    """The workspace could not be deleted."""

    status = 502
    code = "delete_failed"


async def _keep(_workspace: str) -> None:
    return


def _ignore(_workspace: str) -> None:
    return


class WorkspaceDeletion:
    """Takes a workspace away: first its tokens, then its channel, its folders, and at last its row."""

    def __init__(self, fleet: Fleet, workspaces: Workspaces, drivers: Mapping[str, Driver], tokens: TokenStore) -> None:
        self._fleet = fleet
        self._workspaces = workspaces
        self._drivers = drivers
        self._tokens = tokens
        self._folders = FolderDeleter()
        self._finishing: asyncio.Task[None] | None = None
        self.remove_channel: Callable[[str], Awaitable[None]] = _keep
        """Called for a workspace that has no tokens any more, to end its channel and its work. Idempotent."""
        self.on_deleting: Callable[[str], None] = _ignore
        """Called when a workspace is never to run again."""

    def start(self) -> None:
        """Finish in the background what an earlier host has begun."""
        self._finishing = asyncio.create_task(self._finish_left_over(), name="finish-deletions")

    async def close(self) -> None:
        """End the deletions under way; the next host goes on with them."""
        self._folders.close()
        if self._finishing is not None:
            self._finishing.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._finishing

    async def delete(self, workspace_id: str, *, force: bool = False) -> None:
        """Delete a workspace that is stopped, with its data and its tokens. `force`: stop it first.

        Raises NotFound, Conflict if it is not stopped, StopFailed, and DeletionFailed if something is left; then it
        stays in the state `deleting`, and may be deleted again.
        """
        if force and (await self._fleet.get(workspace_id)).state != "deleting":
            await self._fleet.stop(workspace_id)
        async with self._fleet.lock(workspace_id):
            workspace = await self._fleet.get(workspace_id)
            self._check_stopped(workspace)
            if workspace.driver not in self._drivers:
                why = f"this host has no driver {workspace.driver!r}, which may still have a runtime of it"
                raise DeletionFailed(f"{workspace_id!r} cannot be deleted: {why}; set the driver up again")
            await self._workspaces.set_state(
                workspace_id,
                "deleting",
                desired_state="stopped",
                in_transaction=lambda connection: self._tokens.revoke_workspace_in(connection, workspace_id),
            )
            self._fleet.on_revoked(workspace_id)
            self.on_deleting(workspace_id)
            await self._finish(workspace)

    def _check_stopped(self, workspace: Workspace) -> None:
        """Raise Conflict if its runtime runs, or may still run since an earlier process of the host."""
        runs = self._fleet.is_running(workspace.id) or self._fleet.orphans.may_run(workspace.id)
        if runs or workspace.state not in ("stopped", "failed", "deleting"):
            state = "running" if runs else workspace.state
            raise Conflict(
                f"the workspace {workspace.id!r} is {state}; stop it first, or add ?force=true", code="running"
            )

    async def _finish(self, workspace: Workspace) -> None:
        """Delete what the workspace has, and at last its row. Raises DeletionFailed."""
        try:
            await self.remove_channel(workspace.id)
            sockets = await self._drivers[workspace.driver].remove(workspace.id)
            for folder in (sockets, workspace.data_dir):
                if folder is not None:
                    await asyncio.to_thread(self._folders.delete, folder)
        except (AgentRuntimeError, OSError) as error:
            log.error("workspace_not_deleted", workspace=workspace.id, why=str(error))
            raise DeletionFailed(f"{workspace.id!r} is not deleted yet, delete it again: {error}") from error
        await self._workspaces.delete(workspace.id)
        log.info("workspace_deleted", workspace=workspace.id)

    async def _finish_left_over(self) -> None:
        """Finish what an earlier host has begun. What fails is logged, and waits for the next start or `delete`."""
        try:
            for workspace in await self._workspaces.list(WorkspaceQuery(state="deleting")):
                with contextlib.suppress(RequestError):
                    await self.delete(workspace.id)
        except Exception as error:  # noqa: BLE001  the host works without it
            log.error("deletions_not_finished", why=str(error))
