"""Act on what an agent reports about a request: it has started, its result, it is complete, or it is refused."""

from __future__ import annotations

from agent_common.protocol.work import RETRYABLE, Ack, LifecycleSignal, Nack, Progress, WorkResult

from ...errors import Unavailable
from ..channels.channel import AttachedAgent
from ..channels.rate_limit import LOOKUP_UNITS
from ..ledger.ledger import WorkLedger
from ..ledger.work import OpenWork
from ..limits import ListenerLimits
from ..metrics import Metrics
from .constraints import ConstraintEnforcer
from .deadlines import WorkDeadlines
from .retries import WorkRetries

_OUTDATED = "constraints_outdated"
_REFUSED_FOR_NOW = RETRYABLE - {_OUTDATED}
"""Codes with which an agent refuses work that it has not started and would take later."""


class ResultHandler:
    """Records results and refusals, once for each request."""

    def __init__(
        self,
        *,
        ledger: WorkLedger,
        retries: WorkRetries,
        deadlines: WorkDeadlines,
        constraints: ConstraintEnforcer,
        metrics: Metrics,
        limits: ListenerLimits,
    ) -> None:
        self._ledger = ledger
        self._retries = retries
        self._deadlines = deadlines
        self._constraints = constraints
        self._metrics = metrics
        self._limits = limits

    def on_accepting(self, session: AttachedAgent, signal: LifecycleSignal) -> None:
        """Record that the agent has started the request, and limit how long it may run."""
        work = session.slots.get(signal.request_id or "")
        if work is None:
            session.alarm("accepting_unknown", "the agent accepts a request that it does not have", signal.request_id)
        elif work.status == "dispatched":
            work.begun = True
            self._ledger.change_status(work, "accepted")
            if work.cancel_reason is None:
                self._deadlines.arm_run(session, work)
            else:
                self._deadlines.arm_cancel(session, work)
            work.notify()

    def on_progress(self, session: AttachedAgent, progress: Progress) -> None:
        """Pass the progress on. The time of work that the agent begins later is limited from then on; it may say so
        once."""
        work = session.slots.get(progress.request_id)
        if work is None or not work.active:
            return
        if work.status == "accepted" and work.cancel_reason is None:
            if progress.kind == "queued" and work.waits_at_agent is None:
                work.waits_at_agent = True
                self._deadlines.arm_start(session, work)
            elif progress.kind == "started" and work.waits_at_agent:
                work.waits_at_agent = False
                self._deadlines.arm_run(session, work)
        work.notify(progress)

    def on_completed(self, session: AttachedAgent, signal: LifecycleSignal) -> None:
        """Free the slot of the request, and retry a request that has completed without a result."""
        work = session.slots.get(signal.request_id or "")
        if work is None or work.status == "dispatched":
            return  # about an earlier attempt: the agent has not accepted this one
        if work.status == "accepted":
            self._retries.retry(work, "no_result")
        session.free_slot(work.id)

    def on_result(self, session: AttachedAgent, result: WorkResult) -> None:
        """Record the first result of a request. Acknowledge duplicates; refuse results for another agent's request."""
        work = self._ledger.active.get(result.request_id)
        if work is None:
            session.channel.rate_limiter.spend(LOOKUP_UNITS)
            session.run_before_next_frame(self._on_late_result(session, result))
        elif work.workspace != session.channel.workspace or work.deliveries == 0 or work.refused:
            self._refuse_foreign(session, result.request_id)
        elif not work.active:  # it has ended, and its end may not be durable yet
            self._count_duplicate(session, result.request_id)
            self._ledger.writer.save(work, lambda: _send_ack(session, result.request_id))
        else:
            self._handle_result(session, work, result)

    def _handle_result(self, session: AttachedAgent, work: OpenWork, result: WorkResult) -> None:
        """Record the result, or try again if the agent has refused the work for a temporary reason."""
        code = (result.error or "").split(":", 1)[0].strip()
        is_cancelled = work.cancel_reason is not None
        may_retry = not is_cancelled and work.attempts < self._limits.attempts
        if result.status == "denied" and code in _REFUSED_FOR_NOW and not is_cancelled:
            self._retries.resend(work, code)
            self._release(session, work)
        elif result.status == "denied" and code == _OUTDATED and may_retry:
            work.version = None  # the next attempt names the version that is in force then
            self._retries.retry(work, code)
            self._release(session, work)
            self._constraints.on_outdated(session)
        else:
            self._record(session, work, result)

    def _record(self, session: AttachedAgent, work: OpenWork, result: WorkResult) -> None:
        """End the work with this result, and acknowledge the result once it is durable.

        Cancelled work ends as `cancelled`, unless the agent has completed it all the same.
        """
        cancelled = work.cancel_reason is not None and result.status != "completed"
        completed_follows = work.begun and session.slots.get(work.id) is work
        work.lost = False
        session.channel.lost.pop(work.id, None)
        self._ledger.finish(
            work,
            "cancelled" if cancelled else "resulted",
            result=result,
            error=f"cancelled: {work.cancel_reason}" if cancelled else None,
            on_saved=lambda: _send_ack(session, result.request_id),
        )
        if completed_follows:  # and frees the slot
            self._deadlines.arm_slot(session, work)
        else:
            session.free_slot(work.id)

    def _release(self, session: AttachedAgent, work: OpenWork) -> None:
        """Take the work from the agent, which has reported on it. Acknowledge the report once the row is durable."""
        session.channel.lost.pop(work.id, None)
        self._ledger.writer.save(work, lambda: _send_ack(session, work.id))
        session.free_slot(work.id)

    def on_nack(self, session: AttachedAgent, nack: Nack) -> None:
        """End or resend the request, because the agent has refused a frame that names it."""
        work = session.slots.get(nack.request_id or "")
        if work is None or not work.active:
            return
        if nack.code == "unknown_request":  # the answer to a cancel, if the agent has no such work
            if work.cancel_reason is None:
                return  # no cancel was sent
            error = f"cancelled: {work.cancel_reason}; the agent does not have it"
            self._ledger.finish(work, "cancelled", error=error)
        elif nack.code in _REFUSED_FOR_NOW:
            self._retries.resend(work, nack.code)
        else:
            error = f"refused: {nack.code}: {nack.detail or 'the agent does not accept the frame'}"
            self._ledger.finish(work, "dead", error=error)
        session.free_slot(work.id)

    # ---------------------------------------------------------------- duplicates, and results of others

    async def _on_late_result(self, session: AttachedAgent, result: WorkResult) -> None:
        """Look up in the database whose request the result is for: it is over, or has never existed."""
        try:
            owner = await self._ledger.owner(result.request_id)
        except Unavailable:
            return  # without an acknowledgement the agent sends it again when it next attaches
        if session.state == "gone":
            return
        if owner == session.channel.workspace:
            self._count_duplicate(session, result.request_id)
            _send_ack(session, result.request_id)
        else:
            self._refuse_foreign(session, result.request_id)

    def _count_duplicate(self, session: AttachedAgent, request_id: str) -> None:
        self._metrics.count("duplicates_refused")
        session.record_event("duplicate_result", request_id=request_id)

    def _refuse_foreign(self, session: AttachedAgent, request_id: str) -> None:
        self._metrics.count("foreign_refused")
        session.alarm("foreign_result", "a result for a request that was never given to this agent", request_id)
        detail = "this request was never given to this agent"
        session.send(Nack(code="not_yours", request_id=request_id, detail=detail))


def _send_ack(session: AttachedAgent, request_id: str) -> None:
    session.send(Ack(request_id=request_id), request_id=request_id)
