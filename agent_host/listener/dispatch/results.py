"""What an agent says about a request: that it begins, how it ended, that its place is free."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent_common.protocol.work import RETRYABLE, Ack, LifecycleSignal, Nack, WorkResult

from ...errors import Unavailable
from ..channels.rate_limit import LOOKUP_UNITS
from ..dispatch import constraints
from ..ledger.work import OpenWork
from ..parts import Parts

if TYPE_CHECKING:
    from ..connection.session import AgentSession

_OUTDATED = "constraints_outdated"
_NOT_BEGUN = RETRYABLE - {_OUTDATED}
_INTERRUPTED = "interrupted"


def on_accepting(parts: Parts, session: AgentSession, signal: LifecycleSignal) -> None:
    work = session.slots.get(signal.request_id or "")
    if work is None:
        session.alarm("accepting_unknown", "it accepts what it was not given", signal.request_id)
    elif work.status == "dispatched":
        work.begun = True
        work.set_status("accepted", parts.clock.now_ms())
        parts.ledger_writer.save_later(work)
        if work.cancel_reason is None:
            parts.dispatcher.arm_run_deadline(session, work)
        work.notify()


def on_completed(parts: Parts, session: AgentSession, signal: LifecycleSignal) -> None:
    """The place is free, whatever has become of the request."""
    work = session.slots.get(signal.request_id or "")
    if work is None or work.status == "dispatched":
        return  # of an earlier attempt: this one was not even accepted
    if work.status == "accepted":
        parts.dispatcher.retry(work, "no_result")
    session.free_slot(work.id)


def on_result(parts: Parts, session: AgentSession, result: WorkResult) -> None:
    work = parts.ledger.active.get(result.request_id)
    if work is None:
        session.channel.rate_limiter.spend(LOOKUP_UNITS)
        session.run_before_next_frame(_on_late_result(parts, session, result))
    elif work.workspace != session.channel.workspace or work.deliveries == 0 or work.refused:
        _report_foreign(parts, session, result.request_id)
    elif not work.active:
        _report_duplicate(parts, session, result.request_id)
        parts.ledger_writer.save(work, lambda: _send_ack(session, result.request_id))
    else:
        _handle_result(parts, session, work, result)


def _handle_result(parts: Parts, session: AgentSession, work: OpenWork, result: WorkResult) -> None:
    code = (result.error or "").split(":", 1)[0].strip()
    final = work.attempts >= parts.limits.attempts or work.cancel_reason is not None
    if result.status == "denied" and code in _NOT_BEGUN and work.cancel_reason is None:
        _retry_or_resend(parts, session, work, code)
    elif result.status == "denied" and code == _OUTDATED and not final:
        work.version = None
        _retry_or_resend(parts, session, work, code)
        constraints.on_outdated(parts, session)
    elif result.status == "failed" and code == _INTERRUPTED and not final:
        _retry_or_resend(parts, session, work, code)
    else:
        _save_result(parts, session, work, result)


def _save_result(parts: Parts, session: AgentSession, work: OpenWork, result: WorkResult) -> None:
    cancelled = work.cancel_reason is not None and result.status != "completed"
    waits = work.begun and session.slots.get(work.id) is work
    work.lost = False
    session.channel.lost.pop(work.id, None)
    parts.ledger.finish(
        work,
        "cancelled" if cancelled else "resulted",
        result=result,
        error=f"cancelled: {work.cancel_reason}" if cancelled else None,
        on_saved=lambda: _send_ack(session, result.request_id),
    )
    if waits:
        parts.dispatcher.arm(work, parts.limits.slot_timeout, lambda: session.free_slot(work.id))
    else:
        session.free_slot(work.id)


def _retry_or_resend(parts: Parts, session: AgentSession, work: OpenWork, why: str) -> None:
    """The agent has refused it, or lost it, in a way that another time may mend."""
    session.channel.lost.pop(work.id, None)
    if why in _NOT_BEGUN:
        parts.dispatcher.resend(work, why)
    else:
        parts.dispatcher.retry(work, why)
    parts.ledger_writer.save(work, lambda: _send_ack(session, work.id))
    session.free_slot(work.id)


def on_nack(parts: Parts, session: AgentSession, nack: Nack) -> None:
    """The agent could not even take it."""
    work = session.slots.get(nack.request_id or "")
    if work is None or not work.active:
        return
    if nack.code == "unknown_request":  # the answer to a cancel: its result is on its way, or it was never there
        if work.cancel_reason is None:
            return
        parts.ledger.finish(work, "cancelled", error=f"cancelled: {work.cancel_reason}; the agent does not have it")
    elif nack.code in _NOT_BEGUN:
        parts.dispatcher.resend(work, nack.code)
    else:
        parts.ledger.finish(
            work, "dead", error=f"refused: {nack.code}: {nack.detail or 'the agent takes no such frame'}"
        )
    session.free_slot(work.id)


async def _on_late_result(parts: Parts, session: AgentSession, result: WorkResult) -> None:
    """The request is over, or never was."""
    try:
        owner = await parts.ledger.owner(result.request_id)
    except Unavailable:
        return  # it is not acknowledged, so it comes again with the next attachment
    if session.state == "gone":
        return
    if owner == session.channel.workspace:
        _report_duplicate(parts, session, result.request_id)
        _send_ack(session, result.request_id)
    else:
        _report_foreign(parts, session, result.request_id)


def _report_duplicate(parts: Parts, session: AgentSession, request_id: str) -> None:
    parts.metrics.count("duplicates_refused")
    parts.audit_log.event(
        "duplicate_result",
        workspace=session.channel.workspace,
        epoch=session.epoch,
        connection=session.connection.number,
        request_id=request_id,
    )


def _report_foreign(parts: Parts, session: AgentSession, request_id: str) -> None:
    parts.metrics.count("foreign_refused")
    session.alarm("foreign_result", "a result for a request that was never given to this agent", request_id)
    session.send(Nack(code="not_yours", request_id=request_id, detail="this request was never given to this agent"))


def _send_ack(session: AgentSession, request_id: str) -> None:
    session.send(Ack(request_id=request_id), request_id=request_id)
