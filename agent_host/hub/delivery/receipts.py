"""What agents answer: acknowledgements, refusals that bring an envelope again, and how their turns ended."""

from __future__ import annotations

from functools import partial
from itertools import takewhile

from agent_common.clock import Clock
from agent_common.owned_tasks import OwnedTasks
from agent_common.protocol.hub import DEAD_LETTER, Envelope, ErrorFrame, ReceiptFrame, TurnOutcome

from ..agents import Agent
from ..audit import HubAudit
from ..limits import HubLimits
from ..store import DeadLetterRow, HubStore, Submission, TurnRow, fenced
from .delivery import Delivery
from .inbox import Cursor


class Receipts:
    """Takes receipts."""

    def __init__(
        self,
        store: HubStore,
        clock: Clock,
        limits: HubLimits,
        delivery: Delivery,
        audit: HubAudit,
        tasks: OwnedTasks,
    ) -> None:
        self._store = store
        self._clock = clock
        self._limits = limits
        self._tasks = tasks
        self._delivery = delivery
        self._audit = audit

    def receive(self, agent: Agent, receipt: ReceiptFrame) -> None:
        """Take an agent's answer. One about an envelope that is not in flight has no effect."""
        cursor = self._delivery.inboxes.of(agent).cursors.get(receipt.session_id)
        envelope = cursor.in_flight.get(receipt.envelope_id) if cursor is not None else None
        if cursor is None or envelope is None:
            return
        if receipt.status == "nack":
            self._nack(cursor, envelope, receipt.reason)
            return
        if receipt.outcome is not None:
            self._record_turn(cursor, envelope, receipt.outcome, receipt.reason)
        self._delivery.finish(cursor, envelope)

    def _nack(self, cursor: Cursor, envelope: Envelope, reason: str) -> None:
        name = envelope.envelope_id
        if name in cursor.nacked:
            return
        count = cursor.nacks[name] = cursor.nacks.get(name, 0) + 1
        if count >= self._limits.max_attempts:
            self._give_up(cursor, envelope, reason, count)
            return
        cursor.nacked[name] = self._clock.monotonic() + self._limits.retry.pause(count)
        self._delivery.inboxes.save(cursor)
        if cursor.retry is None:
            self._wait(cursor)
            self._delivery.park(cursor)

    def _wait(self, cursor: Cursor) -> None:
        """Go on when the first of those that were nacked is due, in the order of the log."""
        due = next(cursor.nacked[name] for name in cursor.in_flight if name in cursor.nacked)
        seconds = max(due - self._clock.monotonic(), 0.0)
        cursor.retry = self._clock.call_later(seconds, partial(self._redeliver, cursor, due))

    async def _redeliver_large(self, cursor: Cursor, names: set[str]) -> None:
        due = cursor.retry
        await self._delivery.redeliver(cursor, names)
        if cursor.retry is due:  # else all were answered meanwhile, or the link has ended
            self._go_on(cursor)

    def _redeliver(self, cursor: Cursor, due: float) -> None:
        """Send those again whose pauses are over, and those of all before them."""
        due = max(due, self._clock.monotonic())
        waiting = [name for name in cursor.in_flight if name in cursor.nacked]
        names = set(takewhile(lambda name: cursor.nacked[name] <= due, waiting))
        if names & cursor.stripped:
            self._tasks.start(self._redeliver_large(cursor, names))
            return
        expired: list[Envelope] = []
        for name in names:
            del cursor.nacked[name]
        for envelope in [one for name, one in cursor.in_flight.items() if name in names]:
            if self._delivery.is_too_old(envelope):
                expired.append(envelope)
            else:
                self._delivery.notify(cursor, envelope)
        if not cursor.nacked:
            cursor.retry = None
        for envelope in expired:  # after the others, because those that follow may be sent by that
            self._delivery.expire(cursor, envelope)
        self._go_on(cursor)

    def _go_on(self, cursor: Cursor) -> None:
        """Wait for the rest of those that were nacked; if there is none, send what follows."""
        cursor.retry = None
        if cursor.nacked:
            self._wait(cursor)
        else:
            self._delivery.resume(cursor)

    def _give_up(self, cursor: Cursor, envelope: Envelope, reason: str, attempts: int) -> None:
        inbox = cursor.inbox
        session_id = envelope.session_id
        row = DeadLetterRow(
            session_id=session_id,
            agent_id=inbox.agent.agent_id,
            sequence=envelope.sequence,
            envelope_id=envelope.envelope_id,
            reason=reason.replace("\0", "\ufffd"),  # which not every database keeps
            attempts=attempts,
            at=self._clock.now_ms(),
        )
        self._store.submit(Submission((fenced(row, inbox.agent.fence),)))
        self._record_turn(cursor, envelope, "failed", reason)
        if inbox.endpoint is not None:
            message = f"given up after {attempts} attempts: {reason}"
            inbox.endpoint.send(ErrorFrame(code=DEAD_LETTER, message=message, envelope_id=envelope.envelope_id))
        self._delivery.finish(cursor, envelope)

    def _record_turn(self, cursor: Cursor, envelope: Envelope, outcome: TurnOutcome, reason: str) -> None:
        agent_id = cursor.inbox.agent.agent_id
        session_id = envelope.session_id
        row = TurnRow(session_id, agent_id, envelope.sequence, outcome, self._clock.now_ms())
        self._store.submit(Submission((fenced(row, cursor.inbox.agent.fence),)))
        if outcome == "failed":
            self._audit.record(
                "turn_failed", agent_id=agent_id, session_id=session_id, envelope_id=envelope.envelope_id, why=reason
            )
