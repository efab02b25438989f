"""Messages that steer: they join the running turn between two of its steps, or queue when it ends before that."""

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
    """The queue of a session, as far as the running turn may reach into it."""

    def claim_steering(self, turn: Turn) -> list[Turn]:
        """Takes the messages out of the queue that want to join the turn. Whoever cancels one now comes too late."""
        ...

    def mark_joined(self, message: Turn, turn: Turn) -> None:
        """The message is part of the turn, for good."""
        ...

    def requeue(self, message: Turn) -> None:
        """It could not be written down: the message queues again."""
        ...


@dataclass(frozen=True, slots=True)
class SteeringInbox:
    """Lets messages join one turn. What they say and that they left the queue is one transaction."""

    queue: SessionQueue
    turn: Turn
    recorder: Recorder
    learnings: Learnings = field(default_factory=NoLearnings)

    def claim_messages(self) -> Sequence[Turn]:
        return self.queue.claim_steering(self.turn)

    async def record_joined(self, messages: Sequence[Turn]) -> None:
        def unit(connection: sqlite3.Connection, now: int) -> None:
            at, into = self.turn.session.next_timestamp(now), (self.turn.message_id, self.turn.request.reply_id)
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

        # An abort that comes meanwhile does not undo what is on its way to the disk.
        writing = asyncio.ensure_future(self.recorder.save(unit))
        writing.add_done_callback(requeue_unrecorded)
        await asyncio.shield(writing)
