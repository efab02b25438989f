"""How long each state of a request may last. A request has one deadline at a time.

See docs/reference/mediation-host.md#limits.
"""

from __future__ import annotations

from collections.abc import Callable

from agent_common.clock import Clock
from agent_common.protocol.work import Cancel

from ..audit.audit_log import AuditLog
from ..channels.channel import AttachedAgent
from ..ledger.ledger import WorkLedger
from ..ledger.work import OpenWork
from ..limits import ListenerLimits
from ..timers import Timers


class WorkDeadlines:
    """Sets deadlines, and acts on those that pass."""

    def __init__(
        self, *, ledger: WorkLedger, audit_log: AuditLog, timers: Timers, clock: Clock, limits: ListenerLimits
    ) -> None:
        self._ledger, self._audit_log = ledger, audit_log
        self._timers, self._clock, self._limits = timers, clock, limits

    def arm(self, work: OpenWork, seconds: float, call: Callable[[], None]) -> None:
        """Set the one deadline that the work has; it replaces the one before."""
        work.arm(self._timers, seconds, call)

    # ---------------------------------------------------------------- waiting

    def fix_expiry(self, work: OpenWork) -> float:
        """When the work expires, by the monotonic clock. Computed once, so that the wall clock may jump afterwards."""
        if work.expires_monotonic is None:
            work.expires_monotonic = self._clock.monotonic() + (work.expires_at - self._clock.now_ms()) / 1000
        return work.expires_monotonic

    def arm_expiry(self, work: OpenWork) -> None:
        """Limit how long the work may wait to be begun."""
        seconds = self.fix_expiry(work) - self._clock.monotonic()
        work.arm(self._timers, seconds, lambda: self._on_expired(work))

    def _on_expired(self, work: OpenWork) -> None:
        if work.status == "queued":
            self._ledger.finish(work, "expired", error="expired: nobody could begin it in time")
        elif work.status == "retry_wait":
            self._ledger.finish(work, "dead", error="no_agent: the agent that had it did not come back in time")

    # ---------------------------------------------------------------- at the agent

    def arm_accept(self, session: AttachedAgent, work: OpenWork) -> None:
        """The request went out: limit the time until the agent accepts it."""
        work.arm(self._timers, self._limits.accept_timeout, lambda: session.abandon(work, "accept_timeout"))

    def arm_run(self, session: AttachedAgent, work: OpenWork) -> None:
        """The agent works on it: limit the time until its result."""
        bound = work.request.bounds.max_duration_seconds if work.request.bounds else None
        seconds = self._limits.run_timeout if bound is None else bound + self._limits.run_grace
        work.arm(self._timers, seconds, lambda: self._on_run_timeout(session, work))

    def _on_run_timeout(self, session: AttachedAgent, work: OpenWork) -> None:
        """Ask the agent to cancel; without an answer in time, or where it cannot be asked, give the attempt up."""
        self._audit_log.event("overdue", workspace=work.workspace, epoch=work.epoch, request_id=work.id)
        if not session.negotiated:
            session.abandon(work, "run_timeout")
            return
        session.send(Cancel(request_id=work.id, reason="deadline_exceeded"), request_id=work.id)
        work.arm(self._timers, self._limits.cancel_grace, lambda: session.abandon(work, "run_timeout"))

    def arm_slot(self, session: AttachedAgent, work: OpenWork) -> None:
        """The result is there: limit the time until `completed`, after which the slot counts as free."""
        work.arm(self._timers, self._limits.slot_timeout, lambda: session.free_slot(work.id))
