"""Answer `resume` with a verdict for each request that the agent still has from earlier connections
(docs/protocols/mediation.md#27-reconnects-and-ids).

The ledger is authoritative, because a guest that was restored from a snapshot may remember work that ended long ago.
"""

from __future__ import annotations

from agent_common.protocol.work import Resume, ResumeOk, Verdict, encode

from ..channels.channel import AttachedAgent
from ..ledger.ledger import WorkLedger
from ..ledger.work import OpenWork
from ..limits import ListenerLimits
from .deadlines import WorkDeadlines
from .retries import WorkRetries


class ResumeHandler:
    """Compares the work that an agent still has with the ledger."""

    def __init__(
        self, *, ledger: WorkLedger, retries: WorkRetries, deadlines: WorkDeadlines, limits: ListenerLimits
    ) -> None:
        self._ledger = ledger
        self._retries = retries
        self._deadlines = deadlines
        self._limits = limits

    def on_resume(self, session: AttachedAgent, resume: Resume) -> None:
        """Answer with a verdict for each request that the agent lists. Work that continues gets a slot in this session.

        Afterwards the channel's `lost` holds only work that the agent has not listed.
        """
        verdicts: dict[str, Verdict] = {}
        for request_id in resume.unacked:
            verdicts[request_id] = self._verdict_for_unacked(session, request_id)
        for request_id in resume.running:
            verdicts[request_id] = self._verdict_for_running(session, request_id)
        frame = ResumeOk(verdicts=verdicts)
        if len(encode(frame)) > session.peer_max_line:
            # Without a verdict the agent continues the work or sends its result again, which does no harm.
            cancels: dict[str, Verdict] = {
                request_id: verdict for request_id, verdict in verdicts.items() if verdict == "cancel"
            }
            frame = ResumeOk(verdicts=cancels)
        session.send(frame)

    def _find_own_work(self, session: AttachedAgent, request_id: str) -> OpenWork | None:
        """Return the open work with this id. None if there is none, or if it was never sent to this agent."""
        work = self._ledger.active.get(request_id)
        if work is None or not work.active:
            return None
        if work.workspace != session.channel.workspace or work.deliveries == 0:
            session.alarm("foreign_resume", "the agent claims a request that was never given to it", request_id)
            return None
        return work

    def _verdict_for_running(self, session: AttachedAgent, request_id: str) -> Verdict:
        """Decide whether the agent continues a request that it still runs. If so, its attempt goes on in this session.

        So does an attempt that the host has given up: the agent would not begin the same id again, but answer it with
        what it had done. The agent must cancel work that has ended or was cancelled.
        """
        work = self._find_own_work(session, request_id)
        if work is None or work.cancel_reason is not None or work.status != "retry_wait":
            return "cancel"
        session.channel.lost.pop(request_id, None)
        work.lost = False
        work.begun = True
        work.attempts += work.overdue
        work.overdue = False
        work.waits_at_agent = None
        work.next_is_attempt = False  # a retry that was planned does not take place
        work.epoch = session.epoch
        work.not_before = None
        session.slots[request_id] = work
        self._ledger.change_status(work, "accepted")
        self._deadlines.arm_run(session, work)
        work.notify()
        return "continue"

    def _verdict_for_unacked(self, session: AttachedAgent, request_id: str) -> Verdict:
        """Decide whether the agent sends a result again that the host has not acknowledged, or forgets it."""
        work = self._find_own_work(session, request_id)
        if work is None:
            return "forget"
        channel = session.channel
        channel.lost.pop(request_id, None)  # the agent has listed it, so `retry_lost` must not retry it
        work.lost = True  # and the dispatcher must not send it while its result is on the way
        timeout = self._limits.accept_timeout
        self._deadlines.arm(work, timeout, lambda: self._retries.retry_if_lost(channel, work, "result_not_resent"))
        return "resend"
