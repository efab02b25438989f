"""Start, stop and watch the runtimes of workspaces."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from functools import partial
from weakref import WeakValueDictionary

import structlog

from ..access import TokenStore, check_agent_id
from ..errors import Conflict, InvalidRequest, RequestError, describe
from .driver import SETTINGS_OF_DRIVERS, AgentRuntime, Driver, LaunchRequest, PausableRuntime, StartFailed, StopFailed
from .drivers.external import EXTERNAL, ExternalRuntime
from .orphans import Orphans
from .running import RunningAgent, RunningAgents, host_is_stopping, quarantined
from .workspace import (
    DEFAULT_TEAM,
    DesiredState,
    State,
    Workspace,
    WorkspaceQuery,
    Workspaces,
    check_not_deleting,
)
from .workspace_settings import check_passed

log = structlog.get_logger(__name__)


class Fleet(RunningAgents):
    """All workspaces of the host. Calls for one workspace run in order; different workspaces run in parallel."""

    def __init__(
        self,
        workspaces: Workspaces,
        drivers: Mapping[str, Driver],
        tokens: TokenStore,
        mesh_url: str,
        egress_url: str | None = None,
    ) -> None:
        super().__init__(workspaces)
        self._drivers = drivers
        self._tokens = tokens
        self._mesh_url = mesh_url
        self._egress_url = egress_url
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._launching: dict[str, asyncio.Task[Workspace]] = {}
        self.orphans = Orphans(drivers)
        self._closing = False

    async def open(self, *, restore: bool = True) -> Sequence[str]:
        """Record that no runtime runs, except those that other programs run: those keep their state.

        Returns the workspaces that are to be started, because they were meant to run when the host ended. Without
        `restore` there are none, and nothing is meant to run any more.
        """
        found = [one for one in await self._workspaces.list(WorkspaceQuery()) if one.desired_state == "running"]
        wanted = [one for one in found if (restore or one.driver == EXTERNAL) and not self.is_fenced(one.id)]
        kept = [one.id for one in wanted]
        await self._workspaces.reset(kept, lambda connection: self._tokens.revoke_fleet_in(connection, kept))
        self.orphans.expect(wanted)
        for one in wanted:
            if one.driver not in self._drivers:
                await self._workspaces.set_state(one.id, "stopped", f"this host has no driver {one.driver!r}")
            elif one.driver == EXTERNAL:
                await self.start(one.id)
        ids = [one.id for one in wanted if one.driver in self._drivers and one.driver != EXTERNAL]
        return sorted(ids, key=self.orphans.may_run, reverse=True)

    async def close(self) -> None:
        """Stop all runtimes in parallel, and give up starts. A runtime that cannot be stopped is logged and does not
        hold up the others."""
        self._closing = True
        for launching in self._launching.values():
            launching.cancel()
        external = {name: agent for name, agent in self._running.items() if isinstance(agent.runtime, ExternalRuntime)}
        for agent in external.values():  # runs on without us; `open` of the next process finds it
            agent.watch.cancel()
        ids = [name for name in {*self._running, *self._locks} if name not in external]
        outcomes = await asyncio.gather(*(self.stop(workspace_id) for workspace_id in ids), return_exceptions=True)
        for workspace_id, outcome in zip(ids, outcomes, strict=True):
            if isinstance(outcome, BaseException):
                log.error("workspace_close_failed", workspace=workspace_id, why=str(outcome) or type(outcome).__name__)

    async def create(
        self,
        workspace_id: str,
        driver: str | None = None,
        *,
        team: str = DEFAULT_TEAM,
        settings: Mapping[str, str] | None = None,
    ) -> Workspace:
        """Create a workspace, stopped; with the driver `external` it counts as running. `settings`: checked ones.

        Raises InvalidRequest if an argument is not valid or the driver passes no settings, Conflict if the id is taken.
        """
        check_agent_id(workspace_id)
        driver = driver or next(iter(self._drivers))
        if driver not in self._drivers:
            message = f"must be one of {', '.join(sorted(self._drivers))}"
            if driver in SETTINGS_OF_DRIVERS:
                message = f"needs {SETTINGS_OF_DRIVERS[driver]} at the host"
            raise InvalidRequest(f"driver {driver!r} {message}", faults=[("driver", message)])
        check_passed(driver, self._drivers[driver], settings or {}, self._workspaces.host_folder)
        url = self._drivers[driver].allocate_url()
        made = await self._workspaces.create(workspace_id, driver, url, team=team, settings=settings or {})
        return await self.start(workspace_id) if driver == EXTERNAL else made

    def lock(self, workspace_id: str) -> asyncio.Lock:
        """Return the lock that is held while the workspace starts, stops or changes. The workspace must exist."""
        return self._locks.setdefault(workspace_id, asyncio.Lock())

    async def start(self, workspace_id: str) -> Workspace:
        """Start the runtime, and return once it is ready. No effect if it runs.

        Raises NotFound; Conflict if the workspace is in quarantine; RequestError if the runtime does not start.
        """
        await self.get(workspace_id)
        async with self.lock(workspace_id):
            workspace = await self.get(workspace_id)
            check_not_deleting(workspace)
            if workspace_id in self._running:
                return workspace
            if self._closing:
                raise host_is_stopping()
            launching = self._launching[workspace_id] = asyncio.create_task(self._launch(workspace))
            try:
                return await launching
            except asyncio.CancelledError:
                if (caller := asyncio.current_task()) is not None and caller.cancelling():
                    raise
                if self._closing:
                    raise host_is_stopping() from None
                raise Conflict(f"{workspace_id!r} was put in quarantine while it started", code="quarantined") from None
            finally:
                del self._launching[workspace_id]

    def mediation_address(self, workspace_id: str, driver: str | None) -> str | None:
        """Return the workspace's own mediation address with this driver (None: the default), or None."""
        found = self._drivers.get(driver or next(iter(self._drivers)))
        return found.mediation_address(workspace_id) if found else None

    async def quarantine(self, workspace_id: str) -> Workspace:
        """Cut the runtime's connections and kill it, or cancel its start. Raises NotFound and StopFailed."""
        if workspace_id in self._launching:
            self._launching[workspace_id].cancel()
        held = self._running.get(workspace_id)
        if held is not None:
            held.watch.cancel()  # this end is not a failure
            try:
                await held.runtime.quarantine()
            except Exception as error:  # noqa: BLE001  whatever the guest has answered, `stop` kills it
                log.error("quarantine_not_clean", workspace=workspace_id, why=describe(error))
        return await self.stop(workspace_id, at_once=True)

    async def stop(self, workspace_id: str, *, at_once: bool = False) -> Workspace:
        """Stop the runtime and wait for its end. No effect if it is stopped. Raises NotFound and StopFailed."""
        if workspace_id not in self._running:  # else it exists; a failing database must not prevent the stop
            await self.get(workspace_id)
        async with self.lock(workspace_id):
            if workspace_id not in self._running:
                return await self._stop_absent(workspace_id)
            runtime = self._running[workspace_id].runtime
            watch = self._running[workspace_id].watch
            failure: str | None = "the stop was interrupted"
            asked = False
            try:
                await self._save_state(workspace_id, "stopping", desired_state=None if self._closing else "stopped")
                asked = True
                await runtime.stop(at_once=at_once)
                failure = None
            except asyncio.CancelledError:
                if not asked:
                    with contextlib.suppress(Exception):
                        await asyncio.shield(runtime.stop(at_once=True))
                raise
            except Exception as error:
                failure = describe(error)
                raise StopFailed(f"workspace {workspace_id!r} could not be stopped: {failure}") from error
            finally:  # it may still run, so its tokens are revoked, also if the caller has given up
                if failure is not None:
                    with contextlib.suppress(Exception):  # the caller must learn of it even if the database fails
                        await asyncio.shield(self._save_stopped(workspace_id, "stopping", failure))
            del self._running[workspace_id]  # only now: a runtime that is forgotten could not be stopped again
            self.on_change(workspace_id)
            watch.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await watch
            log.info("workspace_stopped", workspace=workspace_id)
            return await self._save_stopped(workspace_id)

    async def _stop_absent(self, workspace_id: str) -> Workspace:
        """End what may be left of a runtime that does not run here, and record that it is stopped."""
        workspace = await self.get(workspace_id)
        ended = workspace.state in ("stopped", "failed")
        kept = ended and (self._closing or workspace.desired_state == "stopped")
        if kept or workspace.state == "deleting":
            return workspace
        await self.orphans.end(workspace)
        return await self._save_stopped(workspace_id)

    async def kill(self, workspace_id: str, runtime: AgentRuntime) -> None:
        """Kill the runtime, which then counts as ended by itself. No effect if it is not the one that runs.

        Raises StartFailed or OSError if it may go on.
        """
        async with self.lock(workspace_id):
            agent = self._running.get(workspace_id)
            if agent is not None and agent.runtime is runtime:
                await runtime.stop(at_once=True)

    async def _save_stopped(self, workspace_id: str, state: State = "stopped", detail: str | None = None) -> Workspace:
        """Store the state, and that the workspace is not meant to run, and revoke its tokens, in one transaction. A
        closing host keeps the tokens, and starts the workspace again when it is back."""
        if self._closing:
            return await self._workspaces.set_state(workspace_id, state, detail)
        workspace = await self._workspaces.set_state(
            workspace_id,
            state,
            detail,
            desired_state="stopped",
            in_transaction=lambda connection: self._tokens.revoke_in(connection, workspace_id),
        )
        self.on_revoked(workspace_id)
        return workspace

    async def _launch(self, workspace: Workspace) -> Workspace:
        driver = self._drivers.get(workspace.driver)
        if driver is None:
            raise Conflict(f"this host has no driver {workspace.driver!r}; set what it needs", code="no_driver")
        if self.is_fenced(workspace.id):  # a later quarantine cancels this task
            raise quarantined(workspace.id)
        try:
            adopted = await self.orphans.adopt(workspace)
            runtime = adopted or await self._start_runtime(workspace, driver)
        except (StartFailed, OSError) as error:
            log.error("workspace_failed", workspace=workspace.id, why=str(error))
            await self._workspaces.set_state(workspace.id, "failed", str(error))
            failure = RequestError(f"workspace {workspace.id!r} did not start: {error}", code="start_failed")
            failure.status = 502
            raise failure from error
        watch = asyncio.create_task(self._watch(workspace.id, runtime), name=f"watch-{workspace.id}")
        external = isinstance(runtime, ExternalRuntime)
        ran_before = adopted is not None or (external and workspace.desired_state == "running")
        self._running[workspace.id] = RunningAgent(runtime, workspace.token, watch, ran_before, external)
        log.info("workspace_started", workspace=workspace.id, url=runtime.url)
        self.on_change(workspace.id)
        return await self._workspaces.set_state(workspace.id, "running", url=runtime.url)

    async def _start_runtime(self, workspace: Workspace, driver: Driver) -> AgentRuntime:
        """Start a new runtime, with a new token. Raises StartFailed and OSError."""
        launch = LaunchRequest(
            id=workspace.id,
            url=workspace.url,
            data_dir=workspace.data_dir,
            token=workspace.token,
            mesh_url=self._mesh_url,
            mesh_token=await self._tokens.mint(workspace.id, "fleet"),
            egress_url=self._egress_url,
            settings=workspace.settings,
            **self.launch_mediation(workspace.id),
        )
        if self.is_fenced(workspace.id):
            raise quarantined(workspace.id)
        await self._workspaces.set_state(workspace.id, "starting", desired_state="running")
        await driver.create(workspace.id, workspace.data_dir)
        return await driver.start(launch)

    async def _watch(self, workspace_id: str, runtime: AgentRuntime) -> None:
        """Wait until a runtime ends by itself, and record the failure."""
        if isinstance(runtime, PausableRuntime):
            runtime.on_paused = partial(self.on_paused, workspace_id)
        how = await runtime.wait()
        async with self.lock(workspace_id):
            self._running.pop(workspace_id, None)
            self.on_change(workspace_id)
            try:
                await runtime.stop()  # end processes that it may have left
            except Exception as error:  # noqa: BLE001  the workspace's end must be recorded all the same
                log.error("workspace_not_cleared", workspace=workspace_id, why=describe(error))
            log.error("workspace_ended", workspace=workspace_id, how=how)
            await self._save_state(workspace_id, "failed", f"the runtime {how}")
        self.on_exit(workspace_id)

    async def _save_state(
        self, workspace_id: str, state: State, detail: str | None = None, *, desired_state: DesiredState | None = None
    ) -> None:
        """Store the state. An error is logged only, so that it does not hold up the runtime's stop."""
        try:
            await self._workspaces.set_state(workspace_id, state, detail, desired_state=desired_state)
        except Exception as error:  # noqa: BLE001  a failing database must not keep a runtime running
            log.error("workspace_state_not_written", workspace=workspace_id, state=state, why=str(error))
