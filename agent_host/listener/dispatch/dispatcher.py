"""Send queued work to agents. The row of a request is durable before the request is sent.

See docs/reference/mediation-host.md#limits.
"""

from __future__ import annotations

from agent_common.protocol.work import encode, to_loose

from ..channels.channel import AttachedAgent, WorkspaceChannel
from ..channels.rate_limit import ANSWER_UNITS
from ..channels.workspace_channels import WorkspaceChannels
from ..ledger.ledger import WorkLedger
from ..ledger.work import OpenWork
from ..metrics import Metrics
from ..owner import WorkspaceOwner
from .deadlines import WorkDeadlines


class SendGate:
    """The one check of whether a workspace's agent may be sent work."""

    def __init__(self, owner: WorkspaceOwner) -> None:
        self._owner = owner

    def blocked_by(self, channel: WorkspaceChannel) -> str | None:
        """Return the first reason why the workspace may get no work now, as a stable code, or None if it may."""
        if channel.fence is not None:
            return channel.fence
        if channel.drained:
            return "drained"
        if channel.paused:
            return "paused"
        if not self._owner.is_running(channel.workspace):
            return "not_running"
        session = channel.session
        if session is None:
            return "not_attached"
        if session.state != "ready":
            return session.state
        return None if len(session.slots) < session.window else "window_full"


class Dispatcher:
    """Queues the work of all workspaces and sends it."""

    def __init__(
        self,
        *,
        ledger: WorkLedger,
        channels: WorkspaceChannels,
        gate: SendGate,
        deadlines: WorkDeadlines,
        metrics: Metrics,
    ) -> None:
        self._ledger, self._channels, self._gate = ledger, channels, gate
        self._deadlines, self._metrics = deadlines, metrics

    # ---------------------------------------------------------------- queue

    def enqueue(self, work: OpenWork) -> None:
        """Append the work to its workspace's queue, and send as much of the queue as the gate allows."""
        self._deadlines.fix_expiry(work)
        channel = self._channels.get(work.workspace)
        channel.queue.append(work)
        self.send_queued(channel)
        if work.status in ("queued", "retry_wait"):
            self._deadlines.arm_expiry(work)

    def requeue(self, work: OpenWork) -> None:
        """Put work first in its queue, because its pause is over, and send as much of the queue as the gate allows."""
        self._deadlines.arm_expiry(work)
        channel = self._channels.get(work.workspace)
        channel.queue.appendleft(work)
        self.send_queued(channel)

    def requeue_waiting(self, channel: WorkspaceChannel) -> None:
        """Queue the work that has waited for constraints which are now in force."""
        channel.queue.extendleft(reversed(channel.waiting_for_constraints))
        channel.waiting_for_constraints.clear()
        self.send_queued(channel)

    def send_queued(self, channel: WorkspaceChannel) -> None:
        """Send queued work while the gate is open."""
        while channel.queue and self._gate.blocked_by(channel) is None:
            work = channel.queue.popleft()
            if work.status not in ("queued", "retry_wait") or work.lost or work.refused:
                continue  # it has ended since, or waits elsewhere
            if self._check_version(channel, work):
                assert channel.session is not None  # noqa: S101  the gate is open
                self._dispatch(channel, channel.session, work)

    def _check_version(self, channel: WorkspaceChannel, work: OpenWork) -> bool:
        """Whether the caller named the constraints in force, or named none. Otherwise the work waits or ends."""
        current, wanted = channel.constraints, work.request.constraints_version
        if not work.pinned or current is None or current.version == wanted:
            return True
        if wanted > current.version:
            channel.waiting_for_constraints.append(work)
        else:
            error = f"constraints_superseded: the request names version {wanted}, {current.version} is in force"
            self._ledger.finish(work, "dead", error=error)
        return False

    # ---------------------------------------------------------------- out

    def _dispatch(self, channel: WorkspaceChannel, session: AttachedAgent, work: OpenWork) -> None:
        """Give the work a slot and write its row. The request is sent when the row is durable."""
        work.attempts += work.next_is_attempt
        work.next_is_attempt, work.begun, work.abandoned, work.not_before = False, False, False, None
        work.deliveries += 1
        work.version, work.epoch = _version_to_send(channel, session, work), session.epoch
        request = work.outgoing(work.version)
        line = encode(to_loose(request) if channel.loose else request)
        if len(line) > session.peer_max_line:
            error = f"too_large: the request has {len(line)} bytes, the agent accepts {session.peer_max_line}"
            self._ledger.finish(work, "dead", error=error)
            return
        delivery = work.deliveries
        self._ledger.save_status(work, "dispatched", lambda: self._on_saved(session, work, delivery, line))
        session.slots[work.id] = work

    def _on_saved(self, session: AttachedAgent, work: OpenWork, delivery: int, line: bytes) -> None:
        """Send the request, unless the work has changed while its row was written."""
        if work.refused:
            session.free_slot(work.id)
            return
        if session.slots.get(work.id) is not work or work.deliveries != delivery or work.status != "dispatched":
            return
        if work.cancel_reason is not None:
            self._ledger.finish(work, "cancelled", error=f"cancelled: {work.cancel_reason}")
            session.free_slot(work.id)
        elif session.state != "ready":
            self._requeue_unsent(session, work)
        else:
            session.send_line(line, "request", request_id=work.id, audit_ref=work.audit_ref())
            session.channel.rate_limiter.earn(ANSWER_UNITS)
            self._metrics.count("dispatches")
            self._deadlines.arm_accept(session, work)
            work.notify()

    def _requeue_unsent(self, session: AttachedAgent, work: OpenWork) -> None:
        """Put a request that was never sent first in the queue."""
        del session.slots[work.id]
        self._ledger.change_status(work, "queued")
        self._deadlines.arm_expiry(work)
        session.channel.queue.appendleft(work)


def _version_to_send(channel: WorkspaceChannel, session: AttachedAgent, work: OpenWork) -> int:
    """Return the version of the constraints to put into the request. A request that was sent before keeps its version,
    because the guest recognizes the request by it."""
    if work.pinned:
        return work.request.constraints_version
    if work.version is not None and work.deliveries > 1:
        return work.version
    if channel.constraints is not None:
        return channel.constraints.version
    return session.acked.version if session.acked else work.request.constraints_version
