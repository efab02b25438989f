"""Steering: messages that join the running turn between two steps, or stay in the queue if it ends before that."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from ...learnings import NoLearnings
from ...ports import Learnings
from ...sessions import Recorder, rows
from .corrections import detect_correction
from .turn_state import Turn


class SessionQueue(Protocol):
    """The part of a session's queue that the running turn may use."""

    def claim_steering(self, turn: Turn) -> list[Turn]:
        """Take the messages that want to join the turn out of the queue. They can no longer be cancelled one by one."""
        ...

    def mark_joined(self, message: Turn, turn: Turn) -> None:
        """Make the message a part of the turn for good."""
        ...

    def requeue(self, message: Turn) -> None:
        """Put the message back into the queue, because it could not be recorded."""
        ...


@dataclass(frozen=True, slots=True)
class SteeringInbox:
    """Lets messages join one turn. Their text and their removal from the queue are one transaction."""

    queue: SessionQueue
    turn: Turn
    recorder: Recorder
    learnings: Learnings = field(default_factory=NoLearnings)

    def claim_messages(self) -> Sequence[Turn]:
        return self.queue.claim_steering(self.turn)

    async def record_joined(self, messages: Sequence[Turn]) -> None:
        def unit(connection: sqlite3.Connection, now: int) -> None:
            at = self.turn.session.next_timestamp(now)
            into = (self.turn.message_id, self.turn.request.reply_id)
            for message in messages:
                rows.steer_turn(connection, message.message_id, into, {"status": "steered"}, at)

        def requeue_unrecorded(written: asyncio.Future[None]) -> None:
            failed = written.cancelled() or written.exception() is not None
            for message in messages:
                if failed:
                    self.queue.requeue(message)
                else:
                    self.queue.mark_joined(message, self.turn)
                    detect_correction(message, None, self.learnings)

        # An abort that comes meanwhile does not undo a write that is under way.
        writing = asyncio.ensure_future(self.recorder.save(unit))
        writing.add_done_callback(requeue_unrecorded)
        await asyncio.shield(writing)
