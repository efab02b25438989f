"""What an agent says about a request: that it begins, how it ended, that its place is free."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent_common.protocol.work import RETRYABLE, Ack, LifecycleSignal, Nack, WorkResult

from ...errors import Unavailable
from ..connection.rate_limit import LOOKUP_UNITS
from ..parts import Parts
from . import constraints
from .work import OpenWork

if TYPE_CHECKING:
    from ..connection.session import AgentSession

_OUTDATED = "constraints_outdated"
_NOT_BEGUN = RETRYABLE - {_OUTDATED}
_INTERRUPTED = "interrupted"


def accepting(parts: Parts, session: AgentSession, signal: LifecycleSignal) -> None:
    work = session.slots.get(signal.request_id or "")
    if work is None:
        session.alarm("accepting_unknown", "it accepts what it was not given", signal.request_id)
    elif work.status == "dispatched":
        work.begun = True
        work.move("accepted", parts.clock.now_ms())
        parts.journal.note(work)
        if work.cancel_reason is None:
            parts.dispatch.accepted(session, work)
        work.tell()


def completed(parts: Parts, session: AgentSession, signal: LifecycleSignal) -> None:
    """The place is free, whatever has become of the request."""
    work = session.slots.get(signal.request_id or "")
    if work is None or work.status == "dispatched":
        return  # of an earlier attempt: this one was not even accepted
    if work.status == "accepted":
        parts.dispatch.retry(work, "no_result")
    session.free(work.id)


def result(parts: Parts, session: AgentSession, said: WorkResult) -> None:
    work = parts.ledger.active.get(said.request_id)
    if work is None:
        session.channel.pace.spend(LOOKUP_UNITS)
        session.look_up(_late(parts, session, said))
    elif work.workspace != session.channel.workspace or work.deliveries == 0 or work.refused:
        _foreign(parts, session, said.request_id)
    elif not work.active:
        _duplicate(parts, session, said.request_id)
        parts.journal.save(work, lambda: _ack(session, said.request_id))
    else:
        _ended(parts, session, work, said)


def _ended(parts: Parts, session: AgentSession, work: OpenWork, said: WorkResult) -> None:
    code = (said.error or "").split(":", 1)[0].strip()
    final = work.attempts >= parts.limits.attempts or work.cancel_reason is not None
    if said.status == "denied" and code in _NOT_BEGUN and work.cancel_reason is None:
        _once_more(parts, session, work, code)
    elif said.status == "denied" and code == _OUTDATED and not final:
        work.version = None
        _once_more(parts, session, work, code)
        constraints.outdated(parts, session)
    elif said.status == "failed" and code == _INTERRUPTED and not final:
        _once_more(parts, session, work, code)
    else:
        _record(parts, session, work, said)


def _record(parts: Parts, session: AgentSession, work: OpenWork, said: WorkResult) -> None:
    cancelled = work.cancel_reason is not None and said.status != "completed"
    waits = work.begun and session.slots.get(work.id) is work
    work.lost = False
    session.channel.lost.pop(work.id, None)
    parts.ledger.finish(
        work,
        "cancelled" if cancelled else "resulted",
        result=said,
        error=f"cancelled: {work.cancel_reason}" if cancelled else None,
        done=lambda: _ack(session, said.request_id),
    )
    if waits:
        parts.dispatch.arm(work, parts.limits.slot, lambda: session.free(work.id))
    else:
        session.free(work.id)


def _once_more(parts: Parts, session: AgentSession, work: OpenWork, why: str) -> None:
    """The agent has refused it, or lost it, in a way that another time may mend."""
    session.channel.lost.pop(work.id, None)
    if why in _NOT_BEGUN:
        parts.dispatch.resend(work, why)
    else:
        parts.dispatch.retry(work, why)
    parts.journal.save(work, lambda: _ack(session, work.id))
    session.free(work.id)


def refused(parts: Parts, session: AgentSession, nack: Nack) -> None:
    """The agent could not even take it."""
    work = session.slots.get(nack.request_id or "")
    if work is None or not work.active:
        return
    if nack.code == "unknown_request":  # the answer to a cancel: its result is on its way, or it was never there
        if work.cancel_reason is None:
            return
        parts.ledger.finish(work, "cancelled", error=f"cancelled: {work.cancel_reason}; the agent does not have it")
    elif nack.code in _NOT_BEGUN:
        parts.dispatch.resend(work, nack.code)
    else:
        parts.ledger.finish(
            work, "dead", error=f"refused: {nack.code}: {nack.detail or 'the agent takes no such frame'}"
        )
    session.free(work.id)


async def _late(parts: Parts, session: AgentSession, said: WorkResult) -> None:
    """The request is over, or never was."""
    try:
        owner = await parts.ledger.owner(said.request_id)
    except Unavailable:
        return  # it is not acknowledged, so it comes again with the next attachment
    if session.state == "gone":
        return
    if owner == session.channel.workspace:
        _duplicate(parts, session, said.request_id)
        _ack(session, said.request_id)
    else:
        _foreign(parts, session, said.request_id)


def _duplicate(parts: Parts, session: AgentSession, request_id: str) -> None:
    parts.metrics.count("duplicates_refused")
    parts.trail.event(
        "duplicate_result",
        workspace=session.channel.workspace,
        epoch=session.epoch,
        connection=session.wire.number,
        request_id=request_id,
    )


def _foreign(parts: Parts, session: AgentSession, request_id: str) -> None:
    parts.metrics.count("foreign_refused")
    session.alarm("foreign_result", "a result for a request that was never given to this agent", request_id)
    session.send(Nack(code="not_yours", request_id=request_id, detail="this request was never given to this agent"))


def _ack(session: AgentSession, request_id: str) -> None:
    session.send(Ack(request_id=request_id), request_id=request_id)
