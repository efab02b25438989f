"""Starts, stops and watches the workspaces' runtimes."""

from __future__ import annotations

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import Mapping

import structlog

from ..access import TokenStore, check_agent_id
from ..errors import InvalidRequest, RequestError, Unavailable
from .driver import Driver, Launch, Runtime, StartFailed
from .workspace import State, Workspace, Workspaces

log = structlog.get_logger(__name__)


class Fleet:
    """All workspaces. Calls for the same one take turns; different ones go side by side."""

    def __init__(
        self, workspaces: Workspaces, drivers: Mapping[str, Driver], tokens: TokenStore, mesh_url: str
    ) -> None:
        self._workspaces = workspaces
        self._drivers = drivers
        self._tokens = tokens
        self._mesh_url = mesh_url
        self._turns: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._running: dict[str, tuple[Runtime, asyncio.Task[None]]] = {}
        self._closing = False

    async def open(self) -> None:
        await self._workspaces.reset()

    async def close(self) -> None:
        """Stops every runtime, all at the same time. One that cannot be stopped keeps none of the others."""
        self._closing = True
        ids = list(self._turns)
        ends = await asyncio.gather(*(self.stop(workspace_id) for workspace_id in ids), return_exceptions=True)
        for workspace_id, end in zip(ids, ends, strict=True):
            if isinstance(end, BaseException):
                log.error("workspace_close_failed", workspace=workspace_id, why=str(end) or type(end).__name__)

    async def create(self, workspace_id: str, driver: str) -> Workspace:
        """A new workspace, stopped. Raises InvalidRequest and Conflict."""
        check_agent_id(workspace_id)
        if driver not in self._drivers:
            message = f"must be one of {', '.join(sorted(self._drivers))}"
            raise InvalidRequest(f"driver {driver!r} {message}", faults=[("driver", message)])
        return await self._workspaces.create(workspace_id, driver, self._drivers[driver].place())

    async def list(self) -> list[Workspace]:
        return await self._workspaces.all()

    async def get(self, workspace_id: str) -> Workspace:
        """Raises NotFound."""
        return await self._workspaces.get(workspace_id)

    async def start(self, workspace_id: str) -> Workspace:
        """Returns when the runtime is ready; one that runs stays as it is. Raises NotFound; RequestError when it does
        not start."""
        await self.get(workspace_id)
        async with self._turns[workspace_id]:
            workspace = await self.get(workspace_id)
            if workspace_id in self._running:
                return workspace
            if self._closing:
                raise Unavailable("the host is stopping and starts nothing any more", code="draining")
            await self._workspaces.set_state(workspace_id, "starting")
            return await self._launch(workspace)

    async def stop(self, workspace_id: str) -> Workspace:
        """Returns when the runtime has ended; one that does not run stays as it is. Raises NotFound."""
        if workspace_id not in self._turns:  # else it is known; a database that fails must not keep a runtime alive
            await self.get(workspace_id)
        async with self._turns[workspace_id]:
            if workspace_id not in self._running:
                workspace = await self.get(workspace_id)
                if workspace.state in ("stopped", "failed"):
                    return workspace
                return await self._workspaces.set_state(workspace_id, "stopped")  # its end could not be written
            runtime, watch = self._running[workspace_id]
            await self._note(workspace_id, "stopping")
            await runtime.stop()
            del self._running[workspace_id]  # not before: what lives must be known, or nobody could stop it
            watch.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await watch
            log.info("workspace_stopped", workspace=workspace_id)
            return await self._workspaces.set_state(workspace_id, "stopped")

    async def _launch(self, workspace: Workspace) -> Workspace:
        launch = Launch(
            id=workspace.id,
            url=workspace.url,
            data_dir=workspace.data_dir,
            token=workspace.token,
            mesh_url=self._mesh_url,
            mesh_token=await self._tokens.mint(workspace.id, "fleet"),
        )
        try:
            runtime = await self._drivers[workspace.driver].start(launch)
        except (StartFailed, OSError) as error:
            log.error("workspace_failed", workspace=workspace.id, why=str(error))
            await self._workspaces.set_state(workspace.id, "failed", str(error))
            failure = RequestError(f"workspace {workspace.id!r} did not start: {error}", code="start_failed")
            failure.status = 502
            raise failure from error
        watch = asyncio.create_task(self._watch(workspace.id, runtime), name=f"watch-{workspace.id}")
        self._running[workspace.id] = runtime, watch
        log.info("workspace_started", workspace=workspace.id, url=runtime.url)
        return await self._workspaces.set_state(workspace.id, "running", url=runtime.url)

    async def _watch(self, workspace_id: str, runtime: Runtime) -> None:
        """Notices a runtime that ends by itself."""
        how = await runtime.wait()
        async with self._turns[workspace_id]:
            self._running.pop(workspace_id, None)
            await runtime.stop()  # what it may have left behind
            log.error("workspace_ended", workspace=workspace_id, how=how)
            await self._note(workspace_id, "failed", f"the runtime {how}")

    async def _note(self, workspace_id: str, state: State, detail: str | None = None) -> None:
        """Writes the state down if that can be done; what happens to the runtime does not wait for it."""
        try:
            await self._workspaces.set_state(workspace_id, state, detail)
        except Exception as error:  # noqa: BLE001  a runtime must end whatever the database does
            log.error("workspace_state_not_written", workspace=workspace_id, state=state, why=str(error))
