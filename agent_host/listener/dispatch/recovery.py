"""Restore the work that was open when the host last stopped."""

from __future__ import annotations

from agent_common.clock import Clock

from ..channels.workspace_channels import WorkspaceChannels
from ..ledger.ledger import WorkLedger
from ..ledger.work import OpenWork
from ..limits import ListenerLimits
from .deadlines import WorkDeadlines
from .dispatcher import Dispatcher
from .retries import WorkRetries


class WorkRecovery:
    """Brings each open request back to where it was."""

    def __init__(
        self,
        *,
        ledger: WorkLedger,
        channels: WorkspaceChannels,
        dispatcher: Dispatcher,
        retries: WorkRetries,
        deadlines: WorkDeadlines,
        clock: Clock,
        limits: ListenerLimits,
    ) -> None:
        self._ledger = ledger
        self._channels = channels
        self._dispatcher = dispatcher
        self._retries = retries
        self._deadlines = deadlines
        self._clock = clock
        self._limits = limits

    async def run(self) -> None:
        """Read the open work, and restore each request. Called before any agent can attach."""
        for work in await self._ledger.load():
            self._restore(work)

    def _restore(self, work: OpenWork) -> None:
        """Queue the work, let it wait for its agent or for the end of its pause, or end it."""
        channel = self._channels.find(work.workspace)
        if channel is None:
            self._ledger.finish(work, "dead", error="no_workspace: its workspace no longer exists")
        elif work.lost:
            if work.cancel_reason is not None:
                self._ledger.finish(work, "cancelled", error=f"cancelled: {work.cancel_reason}")
            else:
                self._retries.mark_lost(channel, work)
        elif work.status == "retry_wait" and work.not_before is not None:
            pause = (work.not_before - self._clock.now_ms()) / 1000
            pause = max(0.0, min(pause, self._limits.retry_max))  # the wall clock may have jumped
            self._deadlines.arm(work, pause, lambda: self._dispatcher.requeue(work))
        else:
            self._dispatcher.enqueue(work)
