"""Start or send work again after a pause, or end it once it has been tried too often.

A retry is a new attempt at work that an agent may have started. A resend sends the same attempt again, which no agent
has started.
"""

from __future__ import annotations

from agent_common.backoff import Backoff, Draw
from agent_common.clock import Clock

from ..audit.audit_log import AuditLog
from ..channels.channel import WorkspaceChannel
from ..ledger.ledger import WorkLedger
from ..ledger.states import SENT
from ..ledger.work import OpenWork
from ..limits import ListenerLimits
from ..metrics import Metrics
from .deadlines import WorkDeadlines
from .dispatcher import Dispatcher


class RetryPauses:
    """Computes how long work waits before it is sent again."""

    def __init__(self, *, limits: ListenerLimits, draw: Draw) -> None:
        self._limits = limits
        self._draw = draw
        self._retry = Backoff(first=2.0, most=limits.retry_max)
        self._resend = Backoff(first=0.04, most=limits.resend_max, jitter=1.0, draw=draw)

    def before_retry(self, work: OpenWork) -> float | None:
        """Return the seconds until the next attempt, or None if there may be no more attempts."""
        if work.attempts >= self._limits.attempts:
            return None
        shortest = self._limits.retry_min
        longest = min(self._limits.retry_max, max(shortest, self._retry.longest(work.attempts)))
        return self._draw(shortest, longest)

    def before_resend(self, work: OpenWork) -> float | None:
        """Return the seconds until the same attempt is sent again, or None if it may not be sent again."""
        if work.deliveries >= self._limits.deliveries:
            return None
        if work.deliveries < 2:  # the first resend does not wait
            return 0.0
        return self._resend.pause(work.deliveries)


class WorkRetries:
    """Decides what follows an attempt that has ended without a result."""

    def __init__(
        self,
        *,
        ledger: WorkLedger,
        dispatcher: Dispatcher,
        deadlines: WorkDeadlines,
        pauses: RetryPauses,
        audit_log: AuditLog,
        metrics: Metrics,
        clock: Clock,
    ) -> None:
        self._ledger = ledger
        self._dispatcher = dispatcher
        self._deadlines = deadlines
        self._pauses = pauses
        self._audit_log = audit_log
        self._metrics = metrics
        self._clock = clock

    # ---------------------------------------------------------------- attempts

    def retry(self, work: OpenWork, why: str) -> None:
        """Start another attempt after a pause, or end the work if there may be no more."""
        if work.cancel_reason is not None:
            self._ledger.finish(work, "cancelled", error=f"cancelled: {work.cancel_reason}")
            return
        pause = self._pauses.before_retry(work)
        if pause is None:
            error = f"attempts_exhausted: {work.attempts} attempts, the last: {why}"
            self._ledger.finish(work, "dead", error=error)
            return
        self._metrics.count("retries", why)
        work.next_is_attempt = True
        self._schedule(work, pause, why)

    def resend(self, work: OpenWork, why: str) -> None:
        """Send the same attempt again after a pause, because the agent has not started it."""
        if work.cancel_reason is not None:
            self._ledger.finish(work, "cancelled", error=f"cancelled: {work.cancel_reason}")
            return
        pause = self._pauses.before_resend(work)
        if pause is None:
            self._ledger.finish(work, "dead", error=f"undeliverable: sent {work.deliveries} times, the last: {why}")
            return
        self._metrics.count("resends")
        self._schedule(work, pause, why)

    def _schedule(self, work: OpenWork, seconds: float, why: str) -> None:
        """Let the work wait in no queue for `seconds`; then the dispatcher queues it."""
        work.lost = False
        work.not_before = self._clock.now_ms() + round(seconds * 1000)
        if work.status == "retry_wait":
            self._ledger.writer.save_later(work)
        else:
            self._ledger.change_status(work, "retry_wait")
        self._audit_log.event("retry_wait", why, workspace=work.workspace, epoch=work.epoch, request_id=work.id)
        work.notify()
        self._deadlines.arm(work, seconds, lambda: self._dispatcher.requeue(work))

    # ---------------------------------------------------------------- broken connections

    def on_detached(self, channel: WorkspaceChannel, slots: dict[str, OpenWork]) -> None:
        """Keep the work of a broken connection: the agent may still do it, and reports on it when it next attaches.

        `slots`: the work that the agent had, by request id.
        """
        for work in slots.values():
            if work.status not in SENT:
                continue  # it has ended, or its retry is planned
            if work.cancel_reason is not None:
                self._ledger.finish(work, "cancelled", error=f"cancelled: {work.cancel_reason}")
                continue
            self._ledger.change_status(work, "retry_wait")
            self.mark_lost(channel, work)
            work.notify()

    def mark_lost(self, channel: WorkspaceChannel, work: OpenWork) -> None:
        """Keep the work until its agent attaches again and reports on it, or until it expires."""
        work.lost = True
        channel.lost[work.id] = work
        self._deadlines.arm_expiry(work)

    def retry_lost(self, channel: WorkspaceChannel) -> None:
        """Retry the kept work that the agent has not listed after it attached again: it has lost that work.

        Called after the verdicts of `resume`, which take listed work out of the channel's `lost`.
        """
        lost = channel.lost
        channel.lost = {}
        for work in lost.values():
            if work.status != "retry_wait" or not work.lost:
                continue
            if work.begun:
                self.retry(work, "lost")
            else:
                self.resend(work, "lost")

    def retry_if_lost(self, channel: WorkspaceChannel, work: OpenWork, why: str) -> None:
        """Retry the work unless its result has come in the meantime, or its agent is away again and may bring it."""
        if work.status != "retry_wait" or not work.lost:
            return
        if channel.session is None or not channel.session.confirmed:
            self.mark_lost(channel, work)
        else:
            self.retry(work, why)
