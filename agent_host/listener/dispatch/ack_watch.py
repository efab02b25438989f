"""Deadlines for the acknowledgement of constraints (docs/reference/mediation-host.md#what-an-operator-does).

An agent that does not acknowledge in time raises an alarm and is then halted. Only the time in which it is attached and
owes the acknowledgement counts: a break does not reset it, and an unreachable host is not the agent's fault.
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
    """Runs the deadlines, raises the alarm, and halts the workspace."""

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
        """Run the deadlines, unless they run already or the agent may first finish its work."""
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
        """Run the deadlines if the agent still owes the acknowledgement: its machine runs again."""
        current = session.channel.constraints
        if session.state == "constraining" and current is not None:
            self.start(session, current)

    def start_if_idle(self, session: AttachedAgent) -> None:
        """Run the deadlines if the agent owes the acknowledgement and has nothing else to do."""
        if not session.slots:
            self.start_if_owed(session)

    def pause(self, channel: WorkspaceChannel) -> None:
        """Stop the deadlines, and keep the time that was used up. Idempotent."""
        for timer in channel.ack_timers:
            timer.cancel()
        channel.ack_timers = []
        if channel.ack_owed_since is not None and channel.constraints is not None:
            channel.constraints.owed_seconds += self._clock.monotonic() - channel.ack_owed_since
        channel.ack_owed_since = None

    def save_status(self, channel: WorkspaceChannel, current: ConstraintSet, status: AckStatus) -> None:
        """Store how the agent has answered, if that is new."""
        if current.status != status:
            self._tasks.spawn(self._write_status(channel, current, status))

    async def _write_status(self, channel: WorkspaceChannel, current: ConstraintSet, status: AckStatus) -> None:
        try:
            await self._channels.save_ack_status(channel, current, status)
        except RequestError:
            return  # it is in memory, and the audit trail has the frame

    def _on_alert_due(self, session: AttachedAgent, current: ConstraintSet) -> None:
        current.alerted = True
        if current.status == "pending":
            self.save_status(session.channel, current, "timeout")
        session.alarm("constraints_not_acked", f"version {current.version} ({current.severity}) is not acknowledged")

    def _on_halt_due(self, channel: WorkspaceChannel, current: ConstraintSet) -> None:
        self._tasks.spawn(self._halt(channel, current))

    async def _halt(self, channel: WorkspaceChannel, current: ConstraintSet) -> None:
        """Fence the workspace and cut the channel. Work that its agent had waits for an operator."""
        reason = f"constraints {current.version} ({current.severity}) were not acknowledged"
        self._audit_log.alarm("halted", reason, workspace=channel.workspace)
        channel.fence, channel.fence_reason = "halted", reason  # in force even if the database fails
        if channel.session is not None:
            channel.session.end("halted", abruptly=True)
        self._owner.on_halt(channel.workspace)
        try:
            await self._channels.fence(channel, "halted", reason)
            await self._channels.save_ack_status(channel, current, "halted")
        except RequestError:
            self._audit_log.alarm("fence_not_written", reason, workspace=channel.workspace)
