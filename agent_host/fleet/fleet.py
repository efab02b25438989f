"""Start, stop and watch the runtimes of workspaces."""

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
    """All workspaces of the host. Calls for one workspace run in order; different workspaces run in parallel."""

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
        """Whether a workspace must not run; called immediately before each start."""
        self.on_revoked: Callable[[str], None] = _ignore
        """Called when the tokens of a workspace have been revoked."""
        self.on_change: Callable[[str], None] = _ignore
        """Called when a workspace has started or stopped running."""
        self.on_exit: Callable[[str], None] = _ignore
        """Called when a runtime has ended without being stopped."""

    async def open(self) -> None:
        """Record that no runtime runs, except those that other programs run: those keep their state."""
        before = await self._workspaces.all()
        await self._workspaces.reset(self._tokens.revoke_fleet_in)
        for workspace in before:
            still_runs = workspace.driver == EXTERNAL and workspace.state == "running" and EXTERNAL in self._drivers
            if still_runs and not self.is_fenced(workspace.id):
                await self.start(workspace.id)

    def is_running(self, workspace_id: str) -> bool:
        return workspace_id in self._running

    async def close(self) -> None:
        """Stop all runtimes in parallel. A runtime that cannot be stopped is logged and does not hold up the others."""
        self._closing = True
        for runtime, watch in self._running.values():
            if isinstance(runtime, ExternalRuntime):  # runs on without us; `open` of the next process finds it
                watch.cancel()
        ids = [name for name in self._locks if not isinstance(self._running.get(name, (None,))[0], ExternalRuntime)]
        outcomes = await asyncio.gather(*(self.stop(workspace_id) for workspace_id in ids), return_exceptions=True)
        for workspace_id, outcome in zip(ids, outcomes, strict=True):
            if isinstance(outcome, BaseException):
                log.error("workspace_close_failed", workspace=workspace_id, why=str(outcome) or type(outcome).__name__)

    async def create(self, workspace_id: str, driver: str | None = None) -> Workspace:
        """Create a workspace, stopped; with the driver `external` it counts as running.

        Raises InvalidRequest if the id or the driver is not valid, Conflict if the id is taken.
        """
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
        """Return the workspace. Raises NotFound if it does not exist."""
        return await self._workspaces.get(workspace_id)

    async def start(self, workspace_id: str) -> Workspace:
        """Start the runtime, and return once it is ready. No effect if it runs.

        Raises NotFound; Conflict if the workspace is in quarantine; RequestError if the runtime does not start.
        """
        await self.get(workspace_id)
        async with self._locks[workspace_id]:
            workspace = await self.get(workspace_id)
            if workspace_id in self._running:
                return workspace
            if self._closing:
                raise Unavailable("the host is stopping and starts no more runtimes", code="draining")
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
        """Return the workspace's own mediation address with this driver (None: the default), or None."""
        found = self._drivers.get(driver or next(iter(self._drivers)))
        return found.mediation_address(workspace_id) if found else None

    async def console(self, workspace_id: str) -> str:
        """Return the end of the runtime's output. Raises NotFound, and Conflict if it does not run."""
        return await (await self._get_runtime(workspace_id)).console()

    async def exec(self, workspace_id: str, argv: Sequence[str], timeout: float) -> CommandOutcome:  # noqa: ASYNC109
        """Run a command beside the runtime.

        Raises NotFound, Conflict if the runtime does not run, NotOffered, and Unavailable if it cannot be reached.
        """
        try:
            return await (await self._get_runtime(workspace_id)).exec(argv, timeout=timeout)
        except OSError as error:
            raise Unavailable(
                f"the runtime of {workspace_id!r} does not answer: {error}", code="unreachable"
            ) from error

    async def _get_runtime(self, workspace_id: str) -> AgentRuntime:
        await self.get(workspace_id)
        if workspace_id not in self._running:
            raise Conflict(f"the workspace {workspace_id!r} does not run; start it first", code="not_running")
        return self._running[workspace_id][0]

    async def quarantine(self, workspace_id: str) -> Workspace:
        """Cut the runtime's connections and kill it, or cancel its start. Raises NotFound and StopFailed."""
        if workspace_id in self._launching:
            self._launching[workspace_id].cancel()
        held = self._running.get(workspace_id)
        if held is not None:
            runtime, watch = held
            watch.cancel()  # this end is not a failure
            try:
                await runtime.quarantine()
            except (AgentRuntimeError, OSError) as error:
                log.error("quarantine_not_clean", workspace=workspace_id, why=str(error))
        return await self.stop(workspace_id, at_once=True)

    async def stop(self, workspace_id: str, *, at_once: bool = False) -> Workspace:
        """Stop the runtime and wait for its end. No effect if it is stopped. Raises NotFound and StopFailed."""
        if workspace_id not in self._locks:  # else it exists; a failing database must not prevent the stop
            await self.get(workspace_id)
        async with self._locks[workspace_id]:
            if workspace_id not in self._running:
                workspace = await self.get(workspace_id)
                if workspace.state in ("stopped", "failed"):
                    return workspace
                return await self._save_stopped(workspace_id)  # an earlier stop could not be stored
            runtime, watch = self._running[workspace_id]
            await self._save_state(workspace_id, "stopping")
            try:
                await runtime.stop(at_once=at_once)
            except (AgentRuntimeError, OSError) as error:
                with contextlib.suppress(Exception):  # the caller must learn of the runtime even if the database fails
                    await self._save_stopped(workspace_id, "stopping", str(error))  # revokes the tokens, as it may run
                raise StopFailed(f"workspace {workspace_id!r} could not be stopped: {error}") from error
            del self._running[workspace_id]  # only now: a runtime that is forgotten could not be stopped again
            self.on_change(workspace_id)
            watch.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await watch
            log.info("workspace_stopped", workspace=workspace_id)
            return await self._save_stopped(workspace_id)

    async def _save_stopped(self, workspace_id: str, state: State = "stopped", detail: str | None = None) -> Workspace:
        """Store the state and revoke the workspace's tokens in one transaction. A closing host keeps the tokens."""
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
        if self.is_fenced(workspace.id):  # checked again: a later quarantine cancels this task
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
        """Wait until a runtime ends by itself, and record the failure."""
        how = await runtime.wait()
        async with self._locks[workspace_id]:
            self._running.pop(workspace_id, None)
            self.on_change(workspace_id)
            try:
                await runtime.stop()  # end processes that it may have left
            except (AgentRuntimeError, OSError) as error:
                log.error("workspace_not_cleared", workspace=workspace_id, why=str(error))
            log.error("workspace_ended", workspace=workspace_id, how=how)
            await self._save_state(workspace_id, "failed", f"the runtime {how}")
        self.on_exit(workspace_id)

    async def _save_state(self, workspace_id: str, state: State, detail: str | None = None) -> None:
        """Store the state. An error is logged only, so that it does not hold up the runtime's stop."""
        try:
            await self._workspaces.set_state(workspace_id, state, detail)
        except Exception as error:  # noqa: BLE001  a failing database must not keep a runtime running
            log.error("workspace_state_not_written", workspace=workspace_id, state=state, why=str(error))
