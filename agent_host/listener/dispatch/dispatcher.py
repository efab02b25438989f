"""Send queued work to agents. The row of a request is durable before the request is sent.

See docs/reference/mediation-host.md#limits.
"""

from __future__ import annotations

from typing import NamedTuple

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
    """Checks whether a workspace's agent may be sent work. Nothing else decides it."""

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


class _Delivery(NamedTuple):
    """A request that is sent once the row of its work is durable."""

    number: int
    line: bytes
    is_attempt: bool
    """Whether it counts as a further attempt."""
    version_before: int | None
    """The version of the constraints that the delivery before it named. None if there was none."""


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
        self._ledger = ledger
        self._channels = channels
        self._gate = gate
        self._deadlines = deadlines
        self._metrics = metrics

    # ---------------------------------------------------------------- queue

    def enqueue(self, work: OpenWork) -> None:
        """Append the work to its workspace's queue, and send as much of the queue as the gate allows."""
        self._deadlines.monotonic_expiry(work)  # keeps it from now on, before the wall clock can jump
        channel = self._channels.get(work.workspace)
        channel.queue.append(work)
        self.send_queued(channel)
        if work.status in ("queued", "retry_wait"):
            self._deadlines.arm_expiry(work)

    def requeue(self, work: OpenWork) -> None:
        """Put work whose pause is over first in its queue, and send as much of the queue as the gate allows."""
        self._deadlines.arm_expiry(work)
        channel = self._channels.get(work.workspace)
        channel.queue.appendleft(work)
        self.send_queued(channel)

    def requeue_waiting(self, channel: WorkspaceChannel) -> None:
        """Put the work that has waited for newer constraints first in the queue, and send what the gate allows.

        Called when constraints come into force. Work for still newer ones goes on waiting.
        """
        channel.queue.extendleft(reversed(channel.waiting_for_constraints))
        channel.waiting_for_constraints.clear()
        self.send_queued(channel)

    def send_queued(self, channel: WorkspaceChannel) -> None:
        """Send queued work while the gate is open."""
        while channel.queue and self._gate.blocked_by(channel) is None:
            work = channel.queue.popleft()
            if work.status not in ("queued", "retry_wait") or work.lost or work.refused:
                continue  # it has ended, its agent may still have it, or the ledger did not take it
            self._dispatch_if_in_force(channel, work)

    def _dispatch_if_in_force(self, channel: WorkspaceChannel, work: OpenWork) -> None:
        """Dispatch the work, unless its caller named a version of the constraints that is not in force.

        Work for a newer version waits for it. Work for an older one ends.
        """
        in_force = channel.constraints
        named = work.request.constraints_version
        if not work.pinned or in_force is None or in_force.version == named:
            assert channel.session is not None  # noqa: S101  the gate is open, so an agent is attached
            self._dispatch(channel, channel.session, work)
        elif named > in_force.version:
            channel.waiting_for_constraints.append(work)
        else:
            error = f"constraints_superseded: the request names version {named}, {in_force.version} is in force"
            self._ledger.finish(work, "dead", error=error)

    # ---------------------------------------------------------------- out

    def _dispatch(self, channel: WorkspaceChannel, session: AttachedAgent, work: OpenWork) -> None:
        """Give the work a slot and write its row. The request is sent when the row is durable."""
        is_attempt = work.next_is_attempt
        version_before = work.version
        if is_attempt:
            work.attempts += 1  # before the request is made, which names the attempt
        work.next_is_attempt = False
        work.begun = False
        work.not_before = None
        work.deliveries += 1
        work.version = _version_to_send(channel, session, work)
        work.epoch = session.epoch
        request = work.outgoing(work.version)
        line = encode(to_loose(request) if channel.loose else request)
        if len(line) > session.peer_max_line:
            error = f"too_large: the request has {len(line)} bytes, the agent accepts {session.peer_max_line}"
            self._ledger.finish(work, "dead", error=error)
            return
        delivery = _Delivery(work.deliveries, line, is_attempt, version_before)
        self._ledger.save_status(work, "dispatched", lambda: self._send(session, work, delivery))
        session.slots[work.id] = work

    def _send(self, session: AttachedAgent, work: OpenWork, delivery: _Delivery) -> None:
        """Send the request, unless its work or the session has changed while the row was written."""
        if work.refused:  # the id names earlier work, or the database failed
            session.free_slot(work.id)
            return
        if session.slots.get(work.id) is not work or work.deliveries != delivery.number or work.status != "dispatched":
            return  # the connection broke, or the work has ended
        if work.cancel_reason is not None:
            self._ledger.finish(work, "cancelled", error=f"cancelled: {work.cancel_reason}")
            session.free_slot(work.id)
        elif session.state != "ready":
            self._requeue_unsent(session, work, delivery)
        else:
            work.overdue = False
            work.waits_at_agent = None
            session.send_line(delivery.line, "request", request_id=work.id, audit_ref=work.audit_ref())
            session.channel.rate_limiter.earn(ANSWER_UNITS)
            self._metrics.count("dispatches")
            self._deadlines.arm_accept(session, work)
            work.notify()

    def _requeue_unsent(self, session: AttachedAgent, work: OpenWork, delivery: _Delivery) -> None:
        """Take the slot from a request that was not sent, and put its work first in the queue, as it was before.

        An agent may still report on an earlier delivery, so only work that was never sent is `queued` again.
        """
        del session.slots[work.id]
        work.deliveries = delivery.number - 1
        work.version = delivery.version_before
        work.attempts = work.attempts - delivery.is_attempt
        work.next_is_attempt = delivery.is_attempt
        self._ledger.change_status(work, "retry_wait" if work.deliveries else "queued")
        self._deadlines.arm_expiry(work)
        session.channel.queue.appendleft(work)


def _version_to_send(channel: WorkspaceChannel, session: AttachedAgent, work: OpenWork) -> int:
    """Return the version of the constraints to put into the request.

    A request that was dispatched before keeps its version, because the guest recognizes the request by it.
    """
    if work.pinned:
        return work.request.constraints_version
    if work.version is not None:
        return work.version
    if channel.constraints is not None:
        return channel.constraints.version
    return session.acked.version if session.acked else work.request.constraints_version
