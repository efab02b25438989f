"""Starts, stops and watches the workspaces' runtimes."""

from __future__ import annotations

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence

import structlog

from ..access import TokenStore, check_agent_id
from ..errors import AgentRuntimeError, Conflict, InvalidRequest, RequestError, Unavailable
from .driver import AgentRuntime, CommandOutcome, Driver, LaunchRequest, Mediation, StartFailed, StopFailed
from .drivers.external import EXTERNAL, ExternalRuntime
from .workspace import State, Workspace, Workspaces

log = structlog.get_logger(__name__)


def _no_mediation(_workspace: str) -> Mediation:
    return {}


def _ignore(_workspace: str) -> None:
    return


def _never_fenced(_workspace: str) -> bool:
    return False


class Fleet:
    """All workspaces. Calls for the same one take turns; different ones go side by side."""

    def __init__(
        self,
        workspaces: Workspaces,
        drivers: Mapping[str, Driver],
        tokens: TokenStore,
        mesh_url: str,
        egress_url: str | None = None,
    ) -> None:
        self._workspaces = workspaces
        self._drivers = drivers
        self._tokens = tokens
        self._mesh_url, self._egress_url = mesh_url, egress_url
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._running: dict[str, tuple[AgentRuntime, asyncio.Task[None]]] = {}
        self._launching: dict[str, asyncio.Task[Workspace]] = {}
        self._closing = False
        self.launch_mediation: Callable[[str], Mediation] = _no_mediation
        self.is_fenced: Callable[[str], bool] = _never_fenced
        """Whether a workspace must not run, asked at the last moment."""
        self.on_revoked: Callable[[str], None] = _ignore
        """Told when a workspace has lost its tokens."""
        self.on_change: Callable[[str], None] = _ignore
        """Told when a workspace has begun or ceased to run."""
        self.on_exit: Callable[[str], None] = _ignore
        """Told when a runtime has ended by itself."""

    async def open(self) -> None:
        """Nothing runs any more but what others run: that goes on."""
        before = await self._workspaces.all()
        await self._workspaces.reset(self._tokens.revoke_fleet_in)
        for workspace in before:
            goes_on = workspace.driver == EXTERNAL and workspace.state == "running" and EXTERNAL in self._drivers
            if goes_on and not self.is_fenced(workspace.id):
                await self.start(workspace.id)

    def is_running(self, workspace_id: str) -> bool:
        return workspace_id in self._running

    async def close(self) -> None:
        """Stops every runtime, all at the same time. One that cannot be stopped keeps none of the others."""
        self._closing = True
        for runtime, watch in self._running.values():
            if isinstance(runtime, ExternalRuntime):  # it goes on without us, and is taken up again by the next life
                watch.cancel()
        ids = [name for name in self._locks if not isinstance(self._running.get(name, (None,))[0], ExternalRuntime)]
        ends = await asyncio.gather(*(self.stop(workspace_id) for workspace_id in ids), return_exceptions=True)
        for workspace_id, end in zip(ids, ends, strict=True):
            if isinstance(end, BaseException):
                log.error("workspace_close_failed", workspace=workspace_id, why=str(end) or type(end).__name__)

    async def create(self, workspace_id: str, driver: str | None = None) -> Workspace:
        """A new workspace, stopped; one of the driver `external` runs. Raises InvalidRequest and Conflict."""
        check_agent_id(workspace_id)
        driver = driver or next(iter(self._drivers))
        if driver not in self._drivers:
            message = f"must be one of {', '.join(sorted(self._drivers))}"
            raise InvalidRequest(f"driver {driver!r} {message}", faults=[("driver", message)])
        made = await self._workspaces.create(workspace_id, driver, self._drivers[driver].allocate_url())
        return await self.start(workspace_id) if driver == EXTERNAL else made

    async def list(self) -> list[Workspace]:
        return await self._workspaces.all()

    async def get(self, workspace_id: str) -> Workspace:
        """Raises NotFound."""
        return await self._workspaces.get(workspace_id)

    async def start(self, workspace_id: str) -> Workspace:
        """Returns when the runtime is ready; one that runs stays as it is. Raises NotFound; RequestError when it does
        not start."""
        await self.get(workspace_id)
        async with self._locks[workspace_id]:
            workspace = await self.get(workspace_id)
            if workspace_id in self._running:
                return workspace
            if self._closing:
                raise Unavailable("the host is stopping and starts nothing any more", code="draining")
            launching = self._launching[workspace_id] = asyncio.create_task(self._launch(workspace))
            try:
                return await launching
            except asyncio.CancelledError:
                if (caller := asyncio.current_task()) is not None and caller.cancelling():
                    raise
                raise Conflict(f"{workspace_id!r} was put in quarantine while it started", code="quarantined") from None
            finally:
                del self._launching[workspace_id]

    def mediation_address(self, workspace_id: str, driver: str | None) -> str | None:
        """The address of its own to which such a workspace's agent will come for work, if it has one."""
        found = self._drivers.get(driver or next(iter(self._drivers)))
        return found.mediation_address(workspace_id) if found else None

    async def console(self, workspace_id: str) -> str:
        """The end of what its runtime says. Raises NotFound, and Conflict when it does not run."""
        return await (await self._get_runtime(workspace_id)).console()

    async def exec(self, workspace_id: str, argv: Sequence[str], timeout: float) -> CommandOutcome:  # noqa: ASYNC109
        """Runs a command beside its runtime. Raises NotFound, Conflict, NotOffered and Unavailable."""
        try:
            return await (await self._get_runtime(workspace_id)).exec(argv, timeout=timeout)
        except OSError as error:
            raise Unavailable(f"the place of {workspace_id!r} does not answer: {error}", code="unreachable") from error

    async def _get_runtime(self, workspace_id: str) -> AgentRuntime:
        await self.get(workspace_id)
        if workspace_id not in self._running:
            raise Conflict(f"the workspace {workspace_id!r} does not run; start it first", code="not_running")
        return self._running[workspace_id][0]

    async def quarantine(self, workspace_id: str) -> Workspace:
        """As `stop`, but its ways in and out are cut first and it is not asked; a start is given up. Raises NotFound
        and StopFailed."""
        if workspace_id in self._launching:
            self._launching[workspace_id].cancel()
        held = self._running.get(workspace_id)
        if held is not None:
            runtime, watch = held
            watch.cancel()  # it does not end by itself
            try:
                await runtime.quarantine()
            except (AgentRuntimeError, OSError) as error:
                log.error("quarantine_not_clean", workspace=workspace_id, why=str(error))
        return await self.stop(workspace_id, at_once=True)

    async def stop(self, workspace_id: str, *, at_once: bool = False) -> Workspace:
        """Returns when the runtime has ended; one that does not run stays as it is. Raises NotFound and StopFailed."""
        if workspace_id not in self._locks:  # else it is known; a database that fails must not keep a runtime alive
            await self.get(workspace_id)
        async with self._locks[workspace_id]:
            if workspace_id not in self._running:
                workspace = await self.get(workspace_id)
                if workspace.state in ("stopped", "failed"):
                    return workspace
                return await self._save_stopped(workspace_id)  # its end could not be written
            runtime, watch = self._running[workspace_id]
            await self._save_state(workspace_id, "stopping")
            try:
                await runtime.stop(at_once=at_once)
            except (AgentRuntimeError, OSError) as error:
                with contextlib.suppress(Exception):  # whatever the database does, the caller must hear of the runtime
                    await self._save_stopped(workspace_id, "stopping", str(error))  # it may live on, and must not act
                raise StopFailed(f"workspace {workspace_id!r} does not end: {error}") from error
            del self._running[workspace_id]  # not before: what lives must be known, or nobody could stop it
            self.on_change(workspace_id)
            watch.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await watch
            log.info("workspace_stopped", workspace=workspace_id)
            return await self._save_stopped(workspace_id)

    async def _save_stopped(self, workspace_id: str, state: State = "stopped", detail: str | None = None) -> Workspace:
        """Writes it down, and takes its tokens away with it; a host that stops itself leaves them as they are."""
        if self._closing:
            return await self._workspaces.set_state(workspace_id, state, detail)
        workspace = await self._workspaces.set_state(
            workspace_id,
            state,
            detail,
            in_transaction=lambda connection: self._tokens.revoke_in(connection, workspace_id),
        )
        self.on_revoked(workspace_id)
        return workspace

    async def _launch(self, workspace: Workspace) -> Workspace:
        launch = LaunchRequest(
            id=workspace.id,
            url=workspace.url,
            data_dir=workspace.data_dir,
            token=workspace.token,
            mesh_url=self._mesh_url,
            mesh_token=await self._tokens.mint(workspace.id, "fleet"),
            egress_url=self._egress_url,
            **self.launch_mediation(workspace.id),
        )
        driver = self._drivers[workspace.driver]
        if self.is_fenced(workspace.id):  # since the caller has looked; whoever fences it later finds this task
            raise Conflict(f"the workspace {workspace.id!r} is in quarantine", code="quarantined")
        await self._workspaces.set_state(workspace.id, "starting")
        try:
            await driver.create(workspace.id, workspace.data_dir)
            runtime = await driver.start(launch)
        except (StartFailed, OSError) as error:
            log.error("workspace_failed", workspace=workspace.id, why=str(error))
            await self._workspaces.set_state(workspace.id, "failed", str(error))
            failure = RequestError(f"workspace {workspace.id!r} did not start: {error}", code="start_failed")
            failure.status = 502
            raise failure from error
        watch = asyncio.create_task(self._watch(workspace.id, runtime), name=f"watch-{workspace.id}")
        self._running[workspace.id] = runtime, watch
        log.info("workspace_started", workspace=workspace.id, url=runtime.url)
        self.on_change(workspace.id)
        return await self._workspaces.set_state(workspace.id, "running", url=runtime.url)

    async def _watch(self, workspace_id: str, runtime: AgentRuntime) -> None:
        """Notices a runtime that ends by itself."""
        how = await runtime.wait()
        async with self._locks[workspace_id]:
            self._running.pop(workspace_id, None)
            self.on_change(workspace_id)
            try:
                await runtime.stop()  # what it may have left behind
            except (AgentRuntimeError, OSError) as error:
                log.error("workspace_not_cleared", workspace=workspace_id, why=str(error))
            log.error("workspace_ended", workspace=workspace_id, how=how)
            await self._save_state(workspace_id, "failed", f"the runtime {how}")
        self.on_exit(workspace_id)

    async def _save_state(self, workspace_id: str, state: State, detail: str | None = None) -> None:
        """Writes the state down if that can be done; what happens to the runtime does not wait for it."""
        try:
            await self._workspaces.set_state(workspace_id, state, detail)
        except Exception as error:  # noqa: BLE001  a runtime must end whatever the database does
            log.error("workspace_state_not_written", workspace=workspace_id, state=state, why=str(error))
