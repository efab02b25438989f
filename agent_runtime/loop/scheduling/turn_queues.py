"""The turns of this process: a queue for each session, and which of them may start."""

from __future__ import annotations

import itertools
from collections import deque
from typing import Any, Literal

from ..core.live_sessions import LiveSession
from ..core.turn_state import Turn
from .turn_slots import TurnSlots

_STATES_BY_KIND = {"queued": ("queued",), "running": ("running", "finalizing"), "waiting": ("waiting", "resuming")}


class TurnQueues:
    """Turns by message and by session, first come first. Turns that have ended are not in it."""

    def __init__(self) -> None:
        self._by_session: dict[str, deque[Turn]] = {}
        self._by_message: dict[str, Turn] = {}
        self._startable: deque[Turn] = deque()
        """Heads of queues that could start as soon as there is a slot."""
        self.paused: set[str] = set()
        """Sessions whose last turn failed: their queue waits for the next message."""
        self.held: set[str] = set()
        """Sessions whose record is being changed; their queues wait."""

    def __len__(self) -> int:
        return len(self._by_message)

    # -- reading

    def turn(self, message_id: str) -> Turn | None:
        """Return the turn of a message; None once it has ended."""
        return self._by_message.get(message_id)

    def all(self) -> list[Turn]:
        """Return all turns in the order of their admission."""
        return list(self._by_message.values())

    def turns(self, kind: Literal["queued", "running", "waiting"]) -> list[Turn]:
        return [turn for turn in self._by_message.values() if turn.state in _STATES_BY_KIND[kind]]

    def session_turns(self, session: LiveSession) -> tuple[Turn, ...]:
        """Return the turns of a session, first come first."""
        return tuple(self._by_session.get(session.id, ()))

    def head_turn(self, session: LiveSession) -> Turn | None:
        """Return the first turn of a session."""
        queue = self._by_session.get(session.id)
        return queue[0] if queue else None

    def active_turn(self, session: LiveSession) -> Turn | None:
        """Return the first turn of a session, running or not; None while the session's queue is paused."""
        return None if session.id in self.paused else self.head_turn(session)

    def active_turns(self) -> dict[str, Turn]:
        """Return the first turn of each session whose queue is not paused, by the session's id."""
        return {session_id: queue[0] for session_id, queue in self._by_session.items() if session_id not in self.paused}

    def queue(self, session: LiveSession) -> list[Turn]:
        """Return the messages that wait in a session, first come first."""
        return [turn for turn in self._by_session.get(session.id, ()) if turn.state == "queued"]

    def pending(self, turn: Turn) -> list[dict[str, Any]]:
        """Return the open questions and approvals of the turn, or of the turn that it queues after."""
        head = self.head_turn(turn.session) if turn.state == "queued" else turn
        return head.pending() if head is not None else []

    def waiting_turns(self) -> list[Turn]:
        """Return the queued turns of sessions that are not paused."""
        return [turn for turn in self.turns("queued") if turn.session.id not in self.paused]

    def count_ahead(self, turn: Turn) -> int:
        """Return the number of turns that were admitted earlier and run or will run; 0 if the turn is not queued."""
        if turn.state != "queued":
            return 0
        earlier = itertools.takewhile(lambda other: other is not turn, self._by_message.values())
        return sum(1 for other in earlier if other.state != "waiting" and other.session.id not in self.paused)

    # -- changing

    def add(self, turn: Turn) -> None:
        self._by_session.setdefault(turn.session.id, deque()).append(turn)
        self._by_message[turn.message_id] = turn
        turn.session.use_count += 1

    def remove(self, turn: Turn) -> None:
        queue = self._by_session[turn.session.id]
        queue.remove(turn)
        if not queue:
            del self._by_session[turn.session.id]
            self.paused.discard(turn.session.id)
        del self._by_message[turn.message_id]
        turn.session.use_count -= 1
        self.withhold(turn)
        self.offer_head(turn.session.id)

    def offer_head(self, session_id: str) -> None:
        """Make the first turn of a session startable, if it could start now."""
        queue = self._by_session.get(session_id)
        if not queue or session_id in self.held:
            return
        head = queue[0]
        paused = session_id in self.paused and head.request.external_work is None  # work from outside is never paused
        if not paused and head.could_start and head not in self._startable:
            self._startable.append(head)

    def withhold(self, turn: Turn) -> None:
        """Make a turn not startable."""
        if turn in self._startable:
            self._startable.remove(turn)

    def next_startable(self, slots: TurnSlots) -> Turn | None:
        """Take the turn that is next, if a slot is free: the principal with the fewest running turns is first, and of
        its turns the one that has waited longest."""
        if slots.free <= 0 or not self._startable:
            return None
        turn = min(self._startable, key=lambda one: slots.running(one.session.principal))
        self._startable.remove(turn)
        return turn
