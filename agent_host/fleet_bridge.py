"""Joins fleet and listener: who runs gets work, who is fenced is stopped, and a new runtime finds its channel."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

import structlog

from agent_common.clock import Clock
from agent_common.net import ListeningSocket

from .access import AccessGuard
from .database import HostDatabase
from .errors import AgentRuntimeError
from .fleet import Fleet, Mediation
from .listener import Listener, ListenerLimits
from .settings import HostSettings

log = structlog.get_logger(__name__)


def limits_of(settings: HostSettings) -> ListenerLimits:
    """What the operator has set."""
    return ListenerLimits(
        heartbeat=settings.listener_heartbeat,
        max_line=settings.listener_max_line,
        window=settings.listener_window,
        run_timeout=settings.work_timeout,
        attempts=settings.work_attempts,
        most_work=settings.work_limit,
        audit_content=settings.audit_content,
    )


async def open_listener(
    stack: AsyncExitStack, settings: HostSettings, database: HostDatabase, clock: Clock, bound: ListeningSocket | None
) -> Listener:
    """A listener that closes with the stack. Raises StartError."""
    listener = Listener(
        database,
        settings.listener_url if settings.listener else None,
        limits=limits_of(settings),
        clock=clock,
        bound=bound,
    )
    await listener.open()
    stack.push_async_callback(listener.close)
    return listener


class FleetBridge:
    """Between a fleet and a listener; `close` it before both."""

    def __init__(self, fleet: Fleet, listener: Listener, guard: AccessGuard) -> None:
        self._fleet, self._listener, self._guard = fleet, listener, guard
        self._tasks: set[asyncio.Task[None]] = set()
        fleet.launch_mediation, fleet.on_change, fleet.is_fenced = (
            self._mediation_settings,
            listener.workspace_changed,
            self.is_fenced,
        )
        fleet.on_revoked, guard.is_fenced = guard.notify_revoked, self.is_fenced
        listener.set_fleet_callbacks(fleet.is_running, self._on_halt)
        listener.set_token_callbacks(guard.revoke_in, guard.notify_revoked)

    async def reconcile(self) -> None:
        """Forgets channels whose workspaces never came to be: the host died between the two."""
        known = {workspace.id for workspace in await self._fleet.list()}
        for name in [channel.workspace for channel in self._listener.parts.channels]:
            if name not in known:
                await self._listener.delete_channel(name)

    async def close(self) -> None:
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=30)

    def _mediation_settings(self, workspace: str) -> Mediation:
        """What of a Launch leads a runtime to its channel."""
        address = self._listener.address_of(workspace)
        if address is None:
            return {}
        channel = self._listener.channel(workspace)
        given: Mediation = {
            "mediation_url": str(address),
            "mediation_dialect": channel.dialect,
            "mediation_required": channel.required,
        }
        if channel.key:
            given["mediation_key"] = channel.key.decode()
        return given

    def is_fenced(self, workspace: str) -> bool:
        """Whether it must not be started."""
        return self._listener.has_channel(workspace) and self._listener.channel(workspace).fence is not None

    def _on_halt(self, workspace: str) -> None:
        self._guard.notify_revoked(workspace)  # the fence is in force, also before it is on the disk
        task = asyncio.get_running_loop().create_task(self._quarantine(workspace), name=f"halt-{workspace}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _quarantine(self, workspace: str) -> None:
        self._listener.close_address(workspace)
        try:
            await self._fleet.quarantine(workspace)
        except AgentRuntimeError as error:
            log.error("halted_workspace_not_stopped", workspace=workspace, why=error.message)
