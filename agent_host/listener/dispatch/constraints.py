"""Push constraints, and send no work until the agent has acknowledged those in force.

See docs/reference/mediation-host.md.
"""

from __future__ import annotations

import base64

from agent_common.owned_tasks import OwnedTasks
from agent_common.protocol.work import ConstraintAck, Constraints, ConstraintsPayload, encode

from ...errors import RequestError
from ..audit.audit_log import AuditLog
from ..channels.channel import AttachedAgent, ConstraintSet, WorkspaceChannel
from ..channels.rate_limit import PUSH_UNITS
from ..channels.workspace_channels import WorkspaceChannels
from .ack_timeouts import AckTimeouts
from .dispatcher import Dispatcher


class ConstraintEnforcer:
    """Holds back an agent's work until it has acknowledged the constraints in force."""

    def __init__(
        self,
        *,
        channels: WorkspaceChannels,
        dispatcher: Dispatcher,
        ack_timeouts: AckTimeouts,
        audit_log: AuditLog,
        tasks: OwnedTasks,
    ) -> None:
        self._channels = channels
        self._dispatcher = dispatcher
        self._ack_timeouts = ack_timeouts
        self._audit_log = audit_log
        self._tasks = tasks

    def ensure_acknowledged(self, session: AttachedAgent) -> None:
        """Make the session ready if its agent has acknowledged the constraints in force; otherwise push them.

        A loose agent, or one without constraints, has nothing to acknowledge. A session that is ending stays as it is.
        """
        in_force = session.channel.constraints
        if session.channel.loose or in_force is None or in_force.is_matched_by(session.acked):
            if in_force is not None and in_force.is_matched_by(session.acked):
                self._ack_timeouts.save_status(session.channel, in_force, "acked")
            self._make_ready(session)
            return
        if session.state in ("draining", "gone"):
            return
        session.state = "constraining"
        if session.acked is not None and session.acked.version == in_force.version:
            self._report_mismatch(session, in_force, session.acked)
        self._push(session, in_force)

    def enforce_new(self, channel: WorkspaceChannel) -> None:
        """Require an attached agent to acknowledge new constraints before it gets more work.

        No effect on a session that is resuming: it comes to `ensure_acknowledged` by itself.
        """
        session = channel.session
        if session is not None and session.state in ("ready", "constraining"):
            self._ack_timeouts.stop(channel)
            self.ensure_acknowledged(session)

    def on_outdated(self, session: AttachedAgent) -> None:
        """Push the constraints again, because the agent reports that it does not have those in force."""
        in_force = session.channel.constraints
        if in_force is None or session.state != "ready" or session.channel.loose:
            return  # nothing to push, or already pushed
        session.acked = None
        session.channel.rate_limiter.spend(PUSH_UNITS)
        self._ack_timeouts.stop(session.channel)
        session.state = "constraining"
        self._push(session, in_force)

    def on_ack(self, session: AttachedAgent, ack: ConstraintAck) -> None:
        """Make the session ready if the agent has acknowledged the constraints in force; otherwise report why not."""
        in_force = session.channel.constraints
        session.acked = ack
        if in_force is None or session.state != "constraining":
            return
        if in_force.is_matched_by(ack):
            self._ack_timeouts.stop(session.channel)
            in_force.owed_seconds = 0.0
            in_force.alerted = False
            self._ack_timeouts.save_status(session.channel, in_force, "acked")
            self._make_ready(session)
        elif ack.version == in_force.version:
            self._report_mismatch(session, in_force, ack)
        else:
            detail = f"acknowledged {ack.version}, and {in_force.version} is in force"
            self._audit_log.event(
                "constraints_not_in_force", detail, workspace=session.channel.workspace, epoch=session.epoch
            )

    def _make_ready(self, session: AttachedAgent) -> None:
        """Change the session to `ready`, and send queued work. No effect if it is ready already or is ending."""
        if session.mark_ready():
            self._dispatcher.send_queued(session.channel)

    def _report_mismatch(self, session: AttachedAgent, in_force: ConstraintSet, ack: ConstraintAck) -> None:
        """Raise an alarm, because the agent has other constraints under the version in force."""
        self._ack_timeouts.save_status(session.channel, in_force, "hash_mismatch")
        session.alarm("constraints_hash", f"version {ack.version}: the agent has {ack.hash}, not {in_force.hash}")

    # ---------------------------------------------------------------- out

    def _push(self, session: AttachedAgent, in_force: ConstraintSet) -> None:
        """Send the constraints in the background, and start the deadlines for their acknowledgement."""
        self._tasks.start(self._send_frames(session, in_force))
        self._ack_timeouts.start(session, in_force)

    async def _send_frames(self, session: AttachedAgent, in_force: ConstraintSet) -> None:
        """Send the constraints. An inline payload goes first; otherwise the agent fetches it from `payload_ref`.

        Nothing is sent if meanwhile the session has ended or newer constraints are in force.
        """
        channel = session.channel
        is_inline = in_force.payload_ref == "inline"
        try:
            payload = await self._channels.read_payload(channel, in_force.version) if session.negotiated else b""
        except RequestError:
            return  # the deadlines are running; the next attachment tries again
        if session.state == "gone" or channel.constraints is not in_force:
            return
        if is_inline and not session.negotiated:
            session.alarm("constraints_undeliverable", "the agent accepts no payload on the channel; set payload_ref")
            return
        if is_inline:
            b64 = base64.b64encode(payload).decode()
            line = encode(ConstraintsPayload(version=in_force.version, b64=b64, severity=in_force.severity))
            if len(line) > session.peer_max_line:
                text = f"the payload takes a line of {len(line)} bytes, the agent accepts {session.peer_max_line}"
                session.alarm("constraints_undeliverable", f"version {in_force.version}: {text}; set payload_ref")
                return
            session.send_line(line, "constraints_payload")
        session.send(
            Constraints(
                version=in_force.version,
                hash=in_force.hash,
                effective_at=in_force.effective_at,
                payload_ref=in_force.payload_ref,
            )
        )
