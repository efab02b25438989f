"""Push constraints, and send no work until the agent has acknowledged those in force.

See docs/reference/mediation-host.md.
"""

from __future__ import annotations

import base64

from agent_common.protocol.work import ConstraintAck, Constraints, ConstraintsPayload

from ...errors import RequestError
from ..audit.audit_log import AuditLog
from ..background import BackgroundTasks
from ..channels.channel import AttachedAgent, ConstraintSet, WorkspaceChannel
from ..channels.rate_limit import PUSH_UNITS
from ..channels.workspace_channels import WorkspaceChannels
from .ack_watch import AckWatch
from .dispatcher import Dispatcher


class ConstraintEnforcer:
    """Holds back an agent's work until it has acknowledged the constraints in force."""

    def __init__(
        self,
        *,
        channels: WorkspaceChannels,
        dispatcher: Dispatcher,
        watch: AckWatch,
        audit_log: AuditLog,
        tasks: BackgroundTasks,
    ) -> None:
        self._channels, self._dispatcher, self._watch = channels, dispatcher, watch
        self._audit_log, self._tasks = audit_log, tasks

    def ensure_acknowledged(self, session: AttachedAgent) -> None:
        """Make the session ready if its agent has acknowledged the constraints in force; otherwise push them."""
        current = session.channel.constraints
        if session.channel.loose or current is None or current.is_matched_by(session.acked):
            if current is not None and session.acked is not None:
                self._watch.save_status(session.channel, current, "acked")
            self._make_ready(session)
            return
        if session.state in ("draining", "gone"):
            return
        session.state = "constraining"
        if session.acked is not None and session.acked.version == current.version:
            self._report_mismatch(session, current, session.acked)
        self._push(session, current)

    def enforce_new(self, channel: WorkspaceChannel) -> None:
        """Require an attached agent to acknowledge constraints that are newly in force before it gets more work."""
        session = channel.session
        if session is not None and session.state in ("ready", "constraining"):
            self._watch.pause(channel)
            self.ensure_acknowledged(session)

    def on_outdated(self, session: AttachedAgent) -> None:
        """Push the constraints again, because the agent reports that it does not have those in force."""
        current = session.channel.constraints
        if current is None or session.state != "ready" or session.channel.loose:
            return  # nothing to push, or already pushed
        session.acked = None
        session.channel.rate_limiter.spend(PUSH_UNITS)
        self._watch.pause(session.channel)
        session.state = "constraining"
        self._push(session, current)

    def on_ack(self, session: AttachedAgent, ack: ConstraintAck) -> None:
        current = session.channel.constraints
        session.acked = ack
        if current is None or session.state != "constraining":
            return
        if current.is_matched_by(ack):
            self._watch.pause(session.channel)
            current.owed_seconds, current.alerted = 0.0, False
            self._watch.save_status(session.channel, current, "acked")
            self._make_ready(session)
        elif ack.version == current.version:
            self._report_mismatch(session, current, ack)
        else:
            detail = f"acknowledged {ack.version}, and {current.version} is in force"
            self._audit_log.event(
                "constraints_not_in_force", detail, workspace=session.channel.workspace, epoch=session.epoch
            )

    def freeze(self, channel: WorkspaceChannel) -> None:
        """Stop the acknowledgement deadlines while the agent's machine is paused."""
        self._watch.pause(channel)

    def thaw(self, session: AttachedAgent) -> None:
        """Run the deadlines again, if the agent still owes the acknowledgement."""
        self._watch.start_if_owed(session)

    def _make_ready(self, session: AttachedAgent) -> None:
        if session.mark_ready():
            self._dispatcher.send_queued(session.channel)

    def _report_mismatch(self, session: AttachedAgent, current: ConstraintSet, ack: ConstraintAck) -> None:
        self._watch.save_status(session.channel, current, "hash_mismatch")
        session.alarm("constraints_hash", f"version {ack.version}: the agent has {ack.hash}, not {current.hash}")

    # ---------------------------------------------------------------- out

    def _push(self, session: AttachedAgent, current: ConstraintSet) -> None:
        """Send the constraints in the background, and start the deadlines for their acknowledgement."""
        self._tasks.spawn(self._send(session, current))
        self._watch.start(session, current)

    async def _send(self, session: AttachedAgent, current: ConstraintSet) -> None:
        """Send the constraints, with the payload first so that the agent need not fetch it."""
        channel = session.channel
        try:
            payload = await self._channels.read_payload(channel, current.version) if session.negotiated else b""
        except RequestError:
            return  # the deadlines are running; the next attachment tries again
        if session.state == "gone" or channel.constraints is not current:
            return
        if session.negotiated and current.payload_ref == "inline":
            b64 = base64.b64encode(payload).decode()
            session.send(ConstraintsPayload(version=current.version, b64=b64, severity=current.severity))
        elif current.payload_ref == "inline":
            session.alarm("constraints_undeliverable", "the agent accepts no payload on the channel; set payload_ref")
            return
        session.send(
            Constraints(
                version=current.version,
                hash=current.hash,
                effective_at=current.effective_at,
                payload_ref=current.payload_ref,
            )
        )
