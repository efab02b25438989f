"""Decide when an agent gets work, and how long each state of a request may last.

See docs/reference/mediation-host.md#limits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import structlog

from agent_common.protocol.work import Cancel, encode, to_loose

from ..connection.rate_limit import ANSWER_UNITS
from ..parts import Parts
from .channel import WorkspaceChannel
from .work import OpenWork

if TYPE_CHECKING:
    from ..connection.session import AgentSession

log = structlog.get_logger(__name__)


class Dispatcher:
    """Sends work to agents and takes it back."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    # ---------------------------------------------------------------- gate

    def blocked_by(self, channel: WorkspaceChannel) -> str | None:
        """Why the workspace gets no work now; None when it may."""
        if channel.fence is not None:
            return channel.fence
        if channel.drained:
            return "drained"
        if channel.paused:
            return "paused"
        if not self._parts.is_running(channel.workspace):
            return "not_running"
        session = channel.session
        if session is None:
            return "not_attached"
        if session.state != "ready":
            return session.state
        return None if len(session.slots) < session.window else "window_full"

    def send_queued(self, channel: WorkspaceChannel) -> None:
        """Sends what may be sent."""
        while channel.queue and self.blocked_by(channel) is None:
            work = channel.queue.popleft()
            if work.status not in ("queued", "retry_wait") or work.lost or work.refused:
                continue  # something else has become of it meanwhile
            if self._check_version(channel, work):
                assert channel.session is not None  # noqa: S101  the gate is open
                self._dispatch(channel, channel.session, work)

    def _check_version(self, channel: WorkspaceChannel, work: OpenWork) -> bool:
        """Whether the constraints in force are those that its caller has named, if he has."""
        current, wanted = channel.constraints, work.request.constraints_version
        if not work.pinned or current is None or current.version == wanted:
            return True
        if wanted > current.version:
            channel.waiting_for_constraints.append(work)
        else:
            error = f"constraints_superseded: it names version {wanted}, and {current.version} is in force"
            self._parts.ledger.finish(work, "dead", error=error)
        return False

    def requeue_waiting(self, channel: WorkspaceChannel) -> None:
        """Other constraints are in force: what has waited for them takes its turn."""
        channel.queue.extendleft(reversed(channel.waiting_for_constraints))
        channel.waiting_for_constraints.clear()
        self.send_queued(channel)

    def enqueue(self, work: OpenWork) -> None:
        """Takes work that waits for nothing but its turn."""
        self._expiry_time(work)
        channel = self._parts.channels.get(work.workspace)
        channel.queue.append(work)
        self.send_queued(channel)
        if work.status in ("queued", "retry_wait"):
            self._arm_expiry(work)

    def _arm_expiry(self, work: OpenWork) -> None:
        self.arm(work, self._expiry_time(work) - self._parts.clock.monotonic(), lambda: self._expire(work))

    def _expiry_time(self, work: OpenWork) -> float:
        """On the clock that does not jump, once for all."""
        if work.expires_monotonic is None:
            clock = self._parts.clock
            work.expires_monotonic = clock.monotonic() + (work.expires_at - clock.now_ms()) / 1000
        return work.expires_monotonic

    def _expire(self, work: OpenWork) -> None:
        if work.status == "queued":
            self._parts.ledger.finish(work, "expired", error="expired: nobody could begin it in time")
        elif work.status == "retry_wait":
            self._parts.ledger.finish(work, "dead", error="no_agent: the agent that had it did not come back in time")

    # ---------------------------------------------------------------- out

    def _dispatch(self, channel: WorkspaceChannel, session: AgentSession, work: OpenWork) -> None:
        """On the disk first; it goes out when it is there."""
        parts = self._parts
        work.attempts += work.next_is_attempt
        work.next_is_attempt, work.begun, work.abandoned, work.not_before = False, False, False, None
        work.deliveries += 1
        work.version, work.epoch = self._version_to_send(channel, session, work), session.epoch
        request = work.outgoing(work.version)
        line = encode(to_loose(request) if channel.loose else request)
        if len(line) > session.peer_max_line:
            error = f"too_large: the request has {len(line)} bytes, and the agent takes {session.peer_max_line}"
            parts.ledger.finish(work, "dead", error=error)
            return
        work.set_status("dispatched", parts.clock.now_ms())
        session.slots[work.id] = work
        delivery = work.deliveries
        parts.ledger_writer.save(work, lambda: self._on_saved(session, work, delivery, line))

    def _version_to_send(self, channel: WorkspaceChannel, session: AgentSession, work: OpenWork) -> int:
        """What was sent once keeps its version: the guest knows it by that."""
        if work.pinned:
            return work.request.constraints_version
        if work.version is not None and work.deliveries > 1:
            return work.version
        if channel.constraints is not None:
            return channel.constraints.version
        return session.acked.version if session.acked else work.request.constraints_version

    def _on_saved(self, session: AgentSession, work: OpenWork, delivery: int, line: bytes) -> None:
        parts = self._parts
        if work.refused:
            session.free_slot(work.id)
            return
        if session.slots.get(work.id) is not work or work.deliveries != delivery or work.status != "dispatched":
            return
        if work.cancel_reason is not None:
            parts.ledger.finish(work, "cancelled", error=f"cancelled: {work.cancel_reason}")
            session.free_slot(work.id)
        elif session.state != "ready":
            self._requeue_unsent(session, work)
        else:
            session.send_line(line, "request", request_id=work.id, audit_ref=work.audit_ref())
            session.channel.rate_limiter.earn(ANSWER_UNITS)
            parts.metrics.count("dispatches")
            self.arm(work, parts.limits.accept_timeout, lambda: self._on_accept_timeout(session, work))
            work.notify()

    def _requeue_unsent(self, session: AgentSession, work: OpenWork) -> None:
        """It never went out: it waits for its next turn, the first of all."""
        del session.slots[work.id]
        work.set_status("queued", self._parts.clock.now_ms())
        self._parts.ledger_writer.save_later(work)
        self._arm_expiry(work)
        session.channel.queue.appendleft(work)

    # ---------------------------------------------------------------- deadlines

    def arm(self, work: OpenWork, seconds: float, call: Callable[[], None]) -> None:
        """The one deadline that the work has now."""
        if work.timer is None:
            work.timer = self._parts.timers.call_later(max(0.0, seconds), call)
        else:
            work.timer.reschedule(max(0.0, seconds), call)

    def arm_run_deadline(self, session: AgentSession, work: OpenWork) -> None:
        """The agent works on it: the clock runs."""
        bound = work.request.bounds.max_duration_seconds if work.request.bounds else None
        limits = self._parts.limits
        seconds = limits.run_timeout if bound is None else bound + limits.run_grace
        self.arm(work, seconds, lambda: self._on_run_timeout(session, work))

    def _on_accept_timeout(self, session: AgentSession, work: OpenWork) -> None:
        session.slots.pop(work.id, None)
        work.abandoned = True
        self.retry(work, "accept_timeout")
        session.end("accept_timeout")

    def _on_run_timeout(self, session: AgentSession, work: OpenWork) -> None:
        limits = self._parts.limits
        self._parts.audit_log.event("overdue", workspace=work.workspace, epoch=work.epoch, request_id=work.id)
        if not session.negotiated:
            self._abandon(session, work)
            return
        session.send(Cancel(request_id=work.id, reason="deadline_exceeded"), request_id=work.id)
        self.arm(work, limits.cancel_grace, lambda: self._abandon(session, work))

    def _abandon(self, session: AgentSession, work: OpenWork) -> None:
        session.slots.pop(work.id, None)
        work.abandoned = True
        self.retry(work, "run_timeout")
        session.end("run_timeout")

    # ---------------------------------------------------------------- once more

    def retry(self, work: OpenWork, why: str) -> None:
        """A further attempt after a pause; or none, when there were enough."""
        parts, limits = self._parts, self._parts.limits
        if work.cancel_reason is not None:
            parts.ledger.finish(work, "cancelled", error=f"cancelled: {work.cancel_reason}")
        elif work.attempts >= limits.attempts:
            parts.ledger.finish(work, "dead", error=f"attempts_exhausted: {work.attempts} attempts, the last: {why}")
        else:
            parts.metrics.count("retries", why)
            work.next_is_attempt = True
            most = min(limits.retry_max, max(limits.retry_min, 2.0**work.attempts))
            self._schedule_retry(work, parts.draw(limits.retry_min, most), why)

    def resend(self, work: OpenWork, why: str) -> None:
        """The same attempt: the agent has not begun it."""
        parts, limits = self._parts, self._parts.limits
        if work.cancel_reason is not None:
            parts.ledger.finish(work, "cancelled", error=f"cancelled: {work.cancel_reason}")
        elif work.deliveries >= limits.deliveries:
            parts.ledger.finish(work, "dead", error=f"undeliverable: sent {work.deliveries} times, the last: {why}")
        else:
            parts.metrics.count("resends")
            most = min(limits.resend_max, 0.02 * 2.0 ** min(work.deliveries, 12))
            self._schedule_retry(work, 0.0 if work.deliveries < 2 else parts.draw(0.0, most), why)

    def _schedule_retry(self, work: OpenWork, seconds: float, why: str) -> None:
        parts = self._parts
        now = parts.clock.now_ms()
        if work.status != "retry_wait":
            work.set_status("retry_wait", now)
        work.lost, work.not_before = False, now + round(seconds * 1000)
        parts.ledger_writer.save_later(work)
        parts.audit_log.event("retry_wait", why, workspace=work.workspace, epoch=work.epoch, request_id=work.id)
        work.notify()
        self.arm(work, seconds, lambda: self.requeue(work))

    def requeue(self, work: OpenWork) -> None:
        """Its pause is over; it has waited long enough to be the first."""
        self._arm_expiry(work)
        channel = self._parts.channels.get(work.workspace)
        channel.queue.appendleft(work)
        self.send_queued(channel)

    # ---------------------------------------------------------------- breaks

    def on_disconnect(self, channel: WorkspaceChannel, slots: dict[str, OpenWork]) -> None:
        """The connection is gone. What its agent has begun may go on there: the next attachment tells."""
        for work in slots.values():
            if work.status not in ("dispatched", "accepted"):
                continue
            if work.cancel_reason is not None:
                self._parts.ledger.finish(work, "cancelled", error=f"cancelled: {work.cancel_reason}")
                continue
            work.begun = work.status == "accepted"
            work.set_status("retry_wait", self._parts.clock.now_ms())
            self._parts.ledger_writer.save_later(work)
            self.mark_lost(channel, work)
            work.notify()

    def mark_lost(self, channel: WorkspaceChannel, work: OpenWork) -> None:
        work.lost = True
        channel.lost[work.id] = work
        self._arm_expiry(work)

    def retry_lost(self, channel: WorkspaceChannel) -> None:
        """The agent is back: what it has not named, it no longer has."""
        lost, channel.lost = channel.lost, {}
        for work in lost.values():
            if work.status != "retry_wait" or not work.lost:
                continue
            if work.begun:
                self.retry(work, "lost")
            else:
                self.resend(work, "lost")

    # ---------------------------------------------------------------- cancel

    def cancel(self, work: OpenWork, reason: str) -> None:
        """Stops it wherever it is. What an agent works on ends when the agent says so, or has not in time."""
        if work.cancel_reason is not None or not work.active:
            return
        channel = self._parts.channels.get(work.workspace)
        session = channel.session
        sent = session is not None and session.slots.get(work.id) is work
        if not sent or session is None or not session.negotiated:
            self._parts.ledger.finish(work, "cancelled", error=f"cancelled: {reason}")
            if sent and session is not None:  # it cannot be told, and its place is not free until it is done
                self.arm(work, self._parts.limits.run_timeout, lambda: session.end("slot_timeout"))
            return
        work.cancel_reason = reason
        self._parts.ledger_writer.save(work, lambda: self._send_cancel(session, work, reason))

    def _send_cancel(self, session: AgentSession, work: OpenWork, reason: str) -> None:
        if session.slots.get(work.id) is not work or not work.active:
            return
        session.send(Cancel(request_id=work.id, reason=reason[:4000]), request_id=work.id)
        self.arm(work, self._parts.limits.cancel_grace, lambda: self._on_cancel_timeout(session, work))

    def _on_cancel_timeout(self, session: AgentSession, work: OpenWork) -> None:
        reason = work.cancel_reason or ""
        self._parts.ledger.finish(work, "cancelled", error=f"cancelled: {reason}; the agent did not answer")
        session.end("cancel_timeout")
