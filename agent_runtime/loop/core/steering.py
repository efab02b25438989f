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
from .corrections import overhear
from .turn_state import Turn


class SessionQueue(Protocol):
    """The queue of a session, as far as the running turn may reach into it."""

    def claim(self, turn: Turn) -> list[Turn]:
        """Takes the messages out of the queue that want to join the turn. Whoever cancels one now comes too late."""
        ...

    def joined(self, message: Turn, turn: Turn) -> None:
        """The message is part of the turn, for good."""
        ...

    def unclaim(self, message: Turn) -> None:
        """It could not be written down: the message queues again."""
        ...


@dataclass(frozen=True, slots=True)
class SteeringInbox:
    """Lets messages join one turn. What they say and that they left the queue is one transaction."""

    lane: SessionQueue
    turn: Turn
    recorder: Recorder
    learnings: Learnings = field(default_factory=NoLearnings)

    def take(self) -> Sequence[Turn]:
        return self.lane.claim(self.turn)

    async def delivered(self, messages: Sequence[Turn]) -> None:
        def unit(connection: sqlite3.Connection, now: int) -> None:
            at, into = self.turn.conversation.stamp(now), (self.turn.message_id, self.turn.reply_id)
            for message in messages:
                rows.steer_turn(connection, message.message_id, into, {"status": "steered"}, at)

        def settle(written: asyncio.Future[None]) -> None:
            failed = written.cancelled() or written.exception() is not None
            for message in messages:
                if failed:
                    self.lane.unclaim(message)
                else:
                    self.lane.joined(message, self.turn)
                    overhear(message, None, self.learnings)

        # An abort that comes meanwhile does not undo what is on its way to the disk.
        writing = asyncio.ensure_future(self.recorder.save(unit))
        writing.add_done_callback(settle)
        await asyncio.shield(writing)
