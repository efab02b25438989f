"""Connect fleet and listener: running workspaces get work, fenced ones are stopped, new runtimes find their channel."""

from __future__ import annotations

import structlog
from sqlalchemy import Connection

from agent_common.clock import Clock
from agent_common.net import ListeningSocket
from agent_common.owned_tasks import OwnedTasks

from .access import AccessGuard
from .database import HostDatabase
from .errors import AgentRuntimeError
from .fleet import Fleet, Mediation
from .listener import Listener, ListenerLimits
from .settings import HostSettings

log = structlog.get_logger(__name__)
QUARANTINE_SECONDS = 30.0
"""Maximum seconds to wait at the end for agents that are being quarantined."""


def limits_of(settings: HostSettings) -> ListenerLimits:
    """Return the listener's limits from the settings."""
    return ListenerLimits(
        heartbeat=settings.listener_heartbeat,
        max_line=settings.listener_max_line,
        window=settings.listener_window,
        run_timeout=settings.work_timeout,
        attempts=settings.work_attempts,
        most_work=settings.work_limit,
        audit_content=settings.audit_content,
    )


class FleetBridge:
    """Makes the listener of a fleet and is its `WorkspaceOwner`. Close it before the listener and the fleet."""

    def __init__(
        self,
        fleet: Fleet,
        guard: AccessGuard,
        *,
        settings: HostSettings,
        database: HostDatabase,
        clock: Clock,
        bound: ListeningSocket | None,
    ) -> None:
        """`bound`: the listener's socket if it is already bound, else None."""
        self._fleet = fleet
        self._guard = guard
        self._token_files = settings.data_dir / "tokens"
        self._quarantines = OwnedTasks()
        self.listener = Listener(
            database,
            settings.listener_url if settings.listener else None,
            limits=limits_of(settings),
            clock=clock,
            bound=bound,
            owner=self,
        )
        fleet.launch_mediation = self._mediation_settings
        fleet.on_change = self.listener.workspaces.workspace_changed
        fleet.is_fenced = self.is_fenced
        fleet.on_paused = self._on_paused
        fleet.on_revoked = guard.notify_revoked
        guard.is_fenced = self.is_fenced

    def _on_paused(self, workspace: str, paused: bool) -> None:
        if workspace not in self.listener.channels:
            return
        if paused:
            self.listener.workspaces.pause(workspace)
        else:
            self.listener.workspaces.unpause(workspace)

    async def reconcile(self) -> None:
        """Delete channels without a workspace, which remain if the host died between creating the two."""
        known = {workspace.id for workspace in await self._fleet.list()}
        for name in [channel.workspace for channel in self.listener.channels]:
            if name not in known:
                await self.listener.workspaces.delete_channel(name)

    async def remove(self, workspace: str) -> None:
        """Delete what the host has of a workspace beside its row and its folders."""
        await self.listener.workspaces.delete_channel(workspace)
        (self._token_files / workspace).unlink(missing_ok=True)

    async def close(self) -> None:
        await self._quarantines.close(QUARANTINE_SECONDS)

    def _mediation_settings(self, workspace: str) -> Mediation:
        """Return the fields of a LaunchRequest by which the runtime finds its channel."""
        address = self.listener.workspaces.address_of(workspace)
        if address is None:
            return {}
        channel = self.listener.channels.get(workspace)
        given: Mediation = {
            "mediation_url": str(address),
            "mediation_dialect": channel.dialect,
            "mediation_required": channel.required,
        }
        if channel.key:
            given["mediation_key"] = channel.key.decode()
        return given

    def is_fenced(self, workspace: str) -> bool:
        """Whether the workspace must not be started."""
        return workspace in self.listener.channels and self.listener.channels.get(workspace).fence is not None

    def is_attached(self, workspace: str) -> bool:
        """Whether the workspace's agent is at its channel, and answers the pings there."""
        channel = self.listener.channels.find(workspace)
        return channel is not None and channel.session is not None

    def is_running(self, workspace: str) -> bool:
        return self._fleet.is_running(workspace)

    def revoke_tokens(self, connection: Connection, workspace: str) -> None:
        self._guard.revoke_in(connection, workspace)

    def on_fenced(self, workspace: str) -> None:
        self._guard.notify_revoked(workspace)

    def on_halt(self, workspace: str) -> None:
        """Stop the workspace in the background."""
        self._guard.notify_revoked(workspace)  # the fence holds even before it is durable
        self._quarantines.start(self._quarantine(workspace), f"halt-{workspace}")

    async def _quarantine(self, workspace: str) -> None:
        self.listener.workspaces.close_address(workspace)
        try:
            await self._fleet.quarantine(workspace)
        except AgentRuntimeError as error:
            log.error("halted_workspace_not_stopped", workspace=workspace, why=error.message)
