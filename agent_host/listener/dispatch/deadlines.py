"""Deadlines for the states of a request.

A request has one deadline at a time: a new one replaces it, and a change of status removes it.

See docs/reference/mediation-host.md#limits.
"""

from __future__ import annotations

from collections.abc import Callable

from agent_common.clock import Clock
from agent_common.protocol.work import DEADLINE_EXCEEDED, Cancel

from ..audit.audit_log import AuditLog
from ..channels.channel import AttachedAgent
from ..ledger.ledger import WorkLedger
from ..ledger.work import OpenWork
from ..limits import ListenerLimits
from ..timers import Timers


class WorkDeadlines:
    """Sets the deadlines of requests, and acts when one passes."""

    def __init__(
        self, *, ledger: WorkLedger, audit_log: AuditLog, timers: Timers, clock: Clock, limits: ListenerLimits
    ) -> None:
        self._ledger = ledger
        self._audit_log = audit_log
        self._timers = timers
        self._clock = clock
        self._limits = limits

    def arm(self, work: OpenWork, seconds: float, on_passed: Callable[[], None]) -> None:
        """Set the deadline of the work, in place of the one that it has. `on_passed` is called when it passes."""
        work.arm(self._timers, seconds, on_passed)

    # ---------------------------------------------------------------- waiting

    def monotonic_expiry(self, work: OpenWork) -> float:
        """Return the monotonic time at which the work expires.

        The first call computes and keeps it, so that a later jump of the wall clock does not move it.
        """
        if work.expires_monotonic is None:
            work.expires_monotonic = self._clock.monotonic() + (work.expires_at - self._clock.now_ms()) / 1000
        return work.expires_monotonic

    def arm_expiry(self, work: OpenWork) -> None:
        """Limit how long the work may wait to be started, or for the agent that had it.

        Work that was sent may have been started in time: then its expiry says nothing about its agent's return.
        """
        self.arm(work, self._seconds_to_wait(work), lambda: self._on_expired(work))

    def _seconds_to_wait(self, work: OpenWork) -> float:
        seconds = self.monotonic_expiry(work) - self._clock.monotonic()
        return seconds if work.status == "queued" else max(seconds, self._limits.return_timeout)

    def _on_expired(self, work: OpenWork) -> None:
        """End work that waits: as `expired` if it is `queued`, else as `dead`, because an agent may have started it."""
        if work.status == "queued":
            self._ledger.finish(work, "expired", error="expired: no agent could start it in time")
        elif work.status == "retry_wait":
            self._ledger.finish(work, "dead", error="no_agent: the agent that had it did not come back in time")

    # ---------------------------------------------------------------- at the agent

    def arm_accept(self, session: AttachedAgent, work: OpenWork) -> None:
        """Limit the time from sending the request until the agent accepts it."""
        self.arm(work, self._limits.accept_timeout, lambda: session.abandon(work, "accept_timeout"))

    def arm_run(self, session: AttachedAgent, work: OpenWork) -> None:
        """Limit the time from when the agent begins the work until its result."""
        work.at_work_since = self._clock.now_ms()
        duration = work.request.bounds.max_duration_seconds if work.request.bounds else None
        seconds = self._limits.run_timeout if duration is None else duration + self._limits.run_grace
        self.arm(work, seconds, lambda: self._on_run_timeout(session, work))

    def arm_start(self, session: AttachedAgent, work: OpenWork) -> None:
        """Limit the time in the agent's own queue, as that of work that waits for its agent."""
        self.arm(work, self._seconds_to_wait(work), lambda: self._on_run_timeout(session, work))

    def _on_run_timeout(self, session: AttachedAgent, work: OpenWork) -> None:
        """Ask the agent to cancel. Give up the attempt if it does not answer in time or cannot be asked."""
        self._audit_log.event("overdue", workspace=work.workspace, epoch=work.epoch, request_id=work.id)
        if not session.negotiated:
            session.abandon(work, "run_timeout")
            return
        session.send(Cancel(request_id=work.id, reason=DEADLINE_EXCEEDED), request_id=work.id)
        self.arm(work, self._limits.cancel_grace, lambda: session.abandon(work, "run_timeout"))

    def arm_cancel(self, session: AttachedAgent, work: OpenWork) -> None:
        """Limit the time from asking the agent to cancel, or from its late acceptance, until its result."""
        self.arm(work, self._limits.cancel_grace, lambda: self._on_no_answer(session, work))

    def _on_no_answer(self, session: AttachedAgent, work: OpenWork) -> None:
        """End the work, and then the session of the agent that does not answer."""
        self._ledger.finish(work, "cancelled", error=f"cancelled: {work.cancel_reason}; the agent did not answer")
        session.end("cancel_timeout")

    def arm_slot(self, session: AttachedAgent, work: OpenWork) -> None:
        """Limit the time from the result until `completed`, after which the slot counts as free."""
        self.arm(work, self._limits.slot_timeout, lambda: session.free_slot(work.id))
