"""Deadlines for the acknowledgement of constraints (docs/reference/mediation-host.md#what-an-operator-does).

An agent owes the acknowledgement from the time at which it is sent constraints. If it does not acknowledge in time, the
host raises an alarm and later halts the workspace. Only time in which the agent is attached counts: a broken connection
does not reset the count, and time without one does not add to it.
"""

from __future__ import annotations

from agent_common.clock import Clock
from agent_common.owned_tasks import OwnedTasks

from ...errors import RequestError
from ..audit.audit_log import AuditLog
from ..channels.channel import ACK_DEADLINES, AckStatus, AttachedAgent, ConstraintSet, WorkspaceChannel
from ..channels.workspace_channels import WorkspaceChannels
from ..owner import WorkspaceOwner
from ..timers import Timers


class AckTimeouts:
    """Runs the two deadlines of each workspace: for the alarm, and for the halt."""

    def __init__(
        self,
        *,
        channels: WorkspaceChannels,
        owner: WorkspaceOwner,
        audit_log: AuditLog,
        tasks: OwnedTasks,
        timers: Timers,
        clock: Clock,
    ) -> None:
        self._channels = channels
        self._owner = owner
        self._audit_log = audit_log
        self._tasks = tasks
        self._timers = timers
        self._clock = clock

    def start(self, session: AttachedAgent, constraints: ConstraintSet) -> None:
        """Start the deadlines, less the time that has counted already.

        No effect if they run, if the agent's machine is paused, or if the severity lets a busy agent finish its work
        first; `start_if_idle` starts them then.
        """
        deadlines = ACK_DEADLINES[constraints.severity]
        channel = session.channel
        if channel.ack_timers or channel.paused or (session.slots and not deadlines.runs_while_busy):
            return
        channel.ack_owed_since = self._clock.monotonic()
        channel.ack_owed_for = constraints
        until_halt = max(0.0, deadlines.halt - constraints.owed_seconds)
        channel.ack_timers = [
            self._timers.call_later(until_halt, lambda: self._tasks.start(self._halt(channel, constraints)))
        ]
        if not constraints.alerted:
            until_alert = max(0.0, deadlines.alert - constraints.owed_seconds)
            channel.ack_timers.append(self._timers.call_later(until_alert, lambda: self._alert(session, constraints)))

    def start_if_owed(self, session: AttachedAgent) -> None:
        """Start the deadlines if the agent owes the acknowledgement. Called when its machine runs again."""
        constraints = session.channel.constraints
        if session.state == "constraining" and constraints is not None:
            self.start(session, constraints)

    def start_if_idle(self, session: AttachedAgent) -> None:
        """Start the deadlines if the agent owes the acknowledgement and has no work left."""
        if not session.slots:
            self.start_if_owed(session)

    def stop(self, channel: WorkspaceChannel) -> None:
        """Stop the deadlines, and add the elapsed time to `owed_seconds` of the constraints they are for. Idempotent.

        Called when the agent has acknowledged, detaches or is sent constraints again, and when its machine is paused.
        """
        for timer in channel.ack_timers:
            timer.cancel()
        channel.ack_timers = []
        if channel.ack_owed_since is not None and channel.ack_owed_for is not None:
            channel.ack_owed_for.owed_seconds += self._clock.monotonic() - channel.ack_owed_since
        channel.ack_owed_since = channel.ack_owed_for = None

    # ---------------------------------------------------------------- status

    def save_status(self, channel: WorkspaceChannel, constraints: ConstraintSet, status: AckStatus) -> None:
        """Store the status in the background, if it has changed."""
        if constraints.status != status:
            self._tasks.start(self._write_status(channel, constraints, status))

    async def _write_status(self, channel: WorkspaceChannel, constraints: ConstraintSet, status: AckStatus) -> None:
        try:
            await self._channels.save_ack_status(channel, constraints, status)
        except RequestError:
            return  # the status is still in memory, and the frame is in the audit trail

    # ---------------------------------------------------------------- when a deadline passes

    def _alert(self, session: AttachedAgent, constraints: ConstraintSet) -> None:
        """Raise the alarm, once for these constraints."""
        constraints.alerted = True
        if constraints.status == "pending":
            self.save_status(session.channel, constraints, "timeout")
        detail = f"version {constraints.version} ({constraints.severity}) is not acknowledged"
        session.alarm("constraints_not_acked", detail)

    async def _halt(self, channel: WorkspaceChannel, constraints: ConstraintSet) -> None:
        """Fence the workspace, end its session and have the workspace stopped. Its agent's work waits for an operator.

        The fence is set in memory first, so that it holds even if the database fails.
        """
        reason = f"constraints {constraints.version} ({constraints.severity}) were not acknowledged"
        self._audit_log.alarm("halted", reason, workspace=channel.workspace)
        self._channels.hold(channel, "halted", reason)
        if channel.session is not None:
            channel.session.end("halted", abruptly=True)
        self._owner.on_halt(channel.workspace)
        try:
            await self._channels.fence(channel, "halted", reason)
            await self._channels.save_ack_status(channel, constraints, "halted")
        except RequestError:
            self._audit_log.alarm("fence_not_written", reason, workspace=channel.workspace)
