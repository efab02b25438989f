"""Answer `resume`: a verdict for each request that the agent still has of earlier connections
(docs/protocols/mediation.md#27-reconnects-and-ids).

The host's ledger decides, because a guest that was restored from a snapshot may remember work that ended long ago.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent_common.protocol.work import Resume, ResumeOk, Verdict, encode

from ..ledger.work import OpenWork
from ..parts import Parts

if TYPE_CHECKING:
    from ..connection.session import AgentSession


def answer_resume(parts: Parts, session: AgentSession, resume: Resume) -> None:
    """Sends the verdicts, and binds what goes on to this attachment."""
    verdicts: dict[str, Verdict] = {}
    for request_id in resume.unacked:
        verdicts[request_id] = _verdict_for_unacked(parts, session, request_id)
    for request_id in resume.running:
        verdicts[request_id] = _verdict_for_running(parts, session, request_id)
    frame = ResumeOk(verdicts=verdicts)
    if len(encode(frame)) > session.peer_max_line:  # what is not named goes on or is sent again, and that does no harm
        frame = ResumeOk(verdicts={name: verdict for name, verdict in verdicts.items() if verdict == "cancel"})
    session.send(frame)


def _find_own_work(parts: Parts, session: AgentSession, request_id: str) -> OpenWork | None:
    """The work, if this agent was given it and it is not over."""
    work = parts.ledger.active.get(request_id)
    if work is None or not work.active:
        return None
    if work.workspace != session.channel.workspace or work.deliveries == 0:
        session.alarm("foreign_resume", "it claims a request that was never given to it", request_id)
        return None
    return work


def _verdict_for_running(parts: Parts, session: AgentSession, request_id: str) -> Verdict:
    work = _find_own_work(parts, session, request_id)
    if work is None or work.abandoned or work.cancel_reason is not None or work.status != "retry_wait":
        return "cancel"
    session.channel.lost.pop(request_id, None)
    work.set_status("accepted", parts.clock.now_ms())
    work.lost, work.begun, work.next_is_attempt, work.epoch, work.not_before = False, True, False, session.epoch, None
    session.slots[request_id] = work
    parts.ledger_writer.save_later(work)
    parts.dispatcher.arm_run_deadline(session, work)
    work.notify()
    return "continue"


def _verdict_for_unacked(parts: Parts, session: AgentSession, request_id: str) -> Verdict:
    """Its result comes now, or is not wanted any more."""
    work = _find_own_work(parts, session, request_id)
    if work is None:
        return "forget"
    session.channel.lost.pop(request_id, None)
    work.lost = True  # it is not sent again while its result is on its way
    parts.dispatcher.arm(work, parts.limits.accept_timeout, lambda: _on_result_missing(parts, work))
    return "resend"


def _on_result_missing(parts: Parts, work: OpenWork) -> None:
    if work.status == "retry_wait" and work.lost:
        parts.dispatcher.retry(work, "result_not_resent")
