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
        self._ledger = ledger
        self._channels = channels
        self._deadlines = deadlines
        self._limits = limits

    def cancel(self, work: OpenWork, reason: str) -> None:
        """Cancel the work. Idempotent.

        Work that no agent has ends at once. Work that an agent has ends when the agent answers, or when it has not
        answered within `cancel_grace`. An agent that does not know the frame cannot be asked: its work ends at once,
        and its slot stays taken until it is done.
        """
        if work.cancel_reason is not None or not work.active:
            return
        session = self._channels.get(work.workspace).session
        if session is None or session.slots.get(work.id) is not work:
            self._ledger.finish(work, "cancelled", error=f"cancelled: {reason}")
        elif not session.negotiated:
            self._ledger.finish(work, "cancelled", error=f"cancelled: {reason}")
            # After `finish`, which removes the deadline: the agent still works, and its slot must become free some day.
            self._deadlines.arm(work, self._limits.run_timeout, lambda: session.end("slot_timeout"))
        else:
            work.cancel_reason = reason
            self._ledger.writer.save(work, lambda: self._send_cancel(session, work, reason))

    def _send_cancel(self, session: AttachedAgent, work: OpenWork, reason: str) -> None:
        """Ask the agent to cancel, now that the reason is durable."""
        if session.slots.get(work.id) is not work or not work.active:
            return  # the work has ended, or left the agent, while its row was written
        session.send(Cancel(request_id=work.id, reason=reason[:4000]), request_id=work.id)
        self._deadlines.arm_cancel(session, work)
