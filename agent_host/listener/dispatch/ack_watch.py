"""Deadlines for the acknowledgement of constraints (docs/reference/mediation-host.md#what-an-operator-does).

If an agent does not acknowledge in time, the watch raises an alarm and later halts the workspace. It counts only time
in which the agent is attached: a broken connection does not reset the count, and time without one does not add to it.
"""

from __future__ import annotations

from agent_common.clock import Clock

from ...errors import RequestError
from ..audit.audit_log import AuditLog
from ..background import BackgroundTasks
from ..channels.channel import ACK_DEADLINES, AckStatus, AttachedAgent, ConstraintSet, WorkspaceChannel
from ..channels.workspace_channels import WorkspaceChannels
from ..owner import WorkspaceOwner
from ..timers import Timers


class AckWatch:
    """Runs the acknowledgement deadlines of all workspaces, raises the alarm, and halts."""

    def __init__(
        self,
        *,
        channels: WorkspaceChannels,
        owner: WorkspaceOwner,
        audit_log: AuditLog,
        tasks: BackgroundTasks,
        timers: Timers,
        clock: Clock,
    ) -> None:
        self._channels, self._owner, self._audit_log = channels, owner, audit_log
        self._tasks, self._timers, self._clock = tasks, timers, clock

    def start(self, session: AttachedAgent, current: ConstraintSet) -> None:
        """Start the deadlines, unless they run already or the severity lets the agent finish its work first."""
        deadlines, channel = ACK_DEADLINES[current.severity], session.channel
        if channel.ack_timers or channel.paused or (session.slots and not deadlines.runs_while_busy):
            return
        channel.ack_owed_since = self._clock.monotonic()
        until_halt = max(0.0, deadlines.halt - current.owed_seconds)
        channel.ack_timers = [self._timers.call_later(until_halt, lambda: self._on_halt_due(channel, current))]
        if not current.alerted:
            until_alert = max(0.0, deadlines.alert - current.owed_seconds)
            channel.ack_timers.append(
                self._timers.call_later(until_alert, lambda: self._on_alert_due(session, current))
            )

    def start_if_owed(self, session: AttachedAgent) -> None:
        """Start the deadlines if the agent still owes the acknowledgement. Called when its machine runs again."""
        current = session.channel.constraints
        if session.state == "constraining" and current is not None:
            self.start(session, current)

    def start_if_idle(self, session: AttachedAgent) -> None:
        """Start the deadlines if the agent owes the acknowledgement and has no work left."""
        if not session.slots:
            self.start_if_owed(session)

    def pause(self, channel: WorkspaceChannel) -> None:
        """Stop the deadlines, and add the elapsed time to the constraints' `owed_seconds`. Idempotent."""
        for timer in channel.ack_timers:
            timer.cancel()
        channel.ack_timers = []
        if channel.ack_owed_since is not None and channel.constraints is not None:
            channel.constraints.owed_seconds += self._clock.monotonic() - channel.ack_owed_since
        channel.ack_owed_since = None

    def save_status(self, channel: WorkspaceChannel, current: ConstraintSet, status: AckStatus) -> None:
        """Store the status in the background, if it has changed."""
        if current.status != status:
            self._tasks.spawn(self._write_status(channel, current, status))

    async def _write_status(self, channel: WorkspaceChannel, current: ConstraintSet, status: AckStatus) -> None:
        try:
            await self._channels.save_ack_status(channel, current, status)
        except RequestError:
            return  # the status is still in memory, and the frame is in the audit trail

    def _on_alert_due(self, session: AttachedAgent, current: ConstraintSet) -> None:
        current.alerted = True
        if current.status == "pending":
            self.save_status(session.channel, current, "timeout")
        session.alarm("constraints_not_acked", f"version {current.version} ({current.severity}) is not acknowledged")

    def _on_halt_due(self, channel: WorkspaceChannel, current: ConstraintSet) -> None:
        self._tasks.spawn(self._halt(channel, current))

    async def _halt(self, channel: WorkspaceChannel, current: ConstraintSet) -> None:
        """Fence the workspace and end its session. Work that its agent had waits for an operator."""
        reason = f"constraints {current.version} ({current.severity}) were not acknowledged"
        self._audit_log.alarm("halted", reason, workspace=channel.workspace)
        channel.fence, channel.fence_reason = "halted", reason  # holds even if the database fails
        if channel.session is not None:
            channel.session.end("halted", abruptly=True)
        self._owner.on_halt(channel.workspace)
        try:
            await self._channels.fence(channel, "halted", reason)
            await self._channels.save_ack_status(channel, current, "halted")
        except RequestError:
            self._audit_log.alarm("fence_not_written", reason, workspace=channel.workspace)
