"""Cancel work, whether it is queued or an agent has it."""

from __future__ import annotations

from agent_common.protocol.work import Cancel

from ..channels.channel import AttachedAgent
from ..channels.workspace_channels import WorkspaceChannels
from ..ledger.ledger import WorkLedger
from ..ledger.work import OpenWork
from ..limits import ListenerLimits
from .deadlines import WorkDeadlines


class WorkCanceller:
    """Ends work at once if no agent has it; otherwise asks the agent to cancel it."""

    def __init__(
        self, *, ledger: WorkLedger, channels: WorkspaceChannels, deadlines: WorkDeadlines, limits: ListenerLimits
    ) -> None:
        self._ledger, self._channels, self._deadlines, self._limits = ledger, channels, deadlines, limits

    def cancel(self, work: OpenWork, reason: str) -> None:
        """Cancel the work. Idempotent.

        Work that an agent has ends when the agent answers, or when it has not answered within `cancel_grace`. An agent
        that does not know the frame cannot be asked: its work ends at once, and its slot stays taken until it is done.
        """
        if work.cancel_reason is not None or not work.active:
            return
        session = self._channels.get(work.workspace).session
        sent = session is not None and session.slots.get(work.id) is work
        if not sent or session is None or not session.negotiated:
            self._ledger.finish(work, "cancelled", error=f"cancelled: {reason}")
            if sent and session is not None:  # the agent still works on it
                self._deadlines.arm(work, self._limits.run_timeout, lambda: session.end("slot_timeout"))
            return
        work.cancel_reason = reason
        self._ledger.save(work, lambda: self._send_cancel(session, work, reason))

    def _send_cancel(self, session: AttachedAgent, work: OpenWork, reason: str) -> None:
        if session.slots.get(work.id) is not work or not work.active:
            return
        session.send(Cancel(request_id=work.id, reason=reason[:4000]), request_id=work.id)
        self._deadlines.arm(work, self._limits.cancel_grace, lambda: self._on_timeout(session, work))

    def _on_timeout(self, session: AttachedAgent, work: OpenWork) -> None:
        reason = work.cancel_reason or ""
        self._ledger.finish(work, "cancelled", error=f"cancelled: {reason}; the agent did not answer")
        session.end("cancel_timeout")
