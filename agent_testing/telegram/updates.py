"""The updates that wait for the bot, and how getUpdates hands them out and forgets them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from .fault_plan import UpdateFaults

_UNASKED = frozenset(("chat_member", "message_reaction", "message_reaction_count"))
"""Kinds that come only if `allowed_updates` names them."""
_FIRST_ID = 100_000_001
_MOST_LATE_DELIVERIES = 3
_MOST_CONFIRMED = 1_000
_LATE_SECONDS = 1.0


@dataclass(slots=True)
class Update:
    """One update; `body` is what it said when it happened."""

    id: int
    kind: str
    body: Any
    held_until: float = 0.0
    """Of a late update: when it is handed out even if no newer one was."""
    deliveries: int = 0

    @property
    def late(self) -> bool:
        """Whether newer updates are handed out before it."""
        return self.held_until > 0

    def to_json(self) -> dict[str, Any]:
        return {"update_id": self.id, self.kind: self.body}


class UpdateQueue:
    """Updates by growing id. Not safe for threads by itself."""

    def __init__(self, clock: Callable[[], float], arrived: Callable[[], None]) -> None:
        self.allowed: frozenset[str] | None = None
        """Kinds that the bot asked for; None: all but those that must be asked for."""
        self.faults = UpdateFaults()
        self._clock = clock
        self._arrived = arrived
        self._next_id = _FIRST_ID
        self._newest_out = 0
        self._waiting: list[Update] = []
        self._confirmed: deque[Update] = deque(maxlen=_MOST_CONFIRMED)
        self._again: list[Update] = []
        self._previous_offset: int | None = None

    @property
    def holds_late(self) -> bool:
        """Whether an update will be due without another event."""
        return any(update.late and not update.deliveries for update in self._waiting)

    @property
    def pending(self) -> int:
        """How many updates are not confirmed."""
        return len(self._waiting)

    def add(self, kind: str, body: Any) -> int | None:
        """Queue an update and return its id; None if the bot has not asked for its kind."""
        if kind in _UNASKED if self.allowed is None else kind not in self.allowed:
            return None
        held_until = self._clock() + _LATE_SECONDS if self.faults.late() else 0.0
        update = Update(self._next_id, kind, body, held_until)
        self._next_id += 1
        self._waiting.append(update)
        self._arrived()
        return update.id

    def clear(self) -> None:
        self._waiting.clear()
        self._again.clear()

    def redeliver(self, update_id: int | None = None) -> int:
        """Hand out a confirmed update again, the newest if None. Raises LookupError if there is none."""
        for update in reversed(self._confirmed):
            if update_id in (None, update.id):
                self._again.append(update)
                self._arrived()
                return update.id
        raise LookupError("no such update was confirmed")

    def take(self, offset: int, limit: int) -> list[Update]:
        """Confirm the updates below `offset`, and return the next ones."""
        if offset < 0:
            self._confirm(self._waiting[:offset])
        else:
            self._confirm([update for update in self._waiting if self._is_confirmed_by(update, offset)])
        self._previous_offset = offset
        again = self._again[:limit]
        self._again = self._again[limit:]
        batch = [*again, *self._due()][:limit]
        for update in batch:
            update.deliveries += 1
        self._newest_out = max((self._newest_out, *(update.id for update in batch)))
        return self.faults.reordered(batch)

    def _due(self) -> list[Update]:
        """Return the updates in time, then late ones that newer ones have overtaken."""
        now = self._clock()
        late = (
            update
            for update in self._waiting
            if update.late and (update.deliveries or update.id < self._newest_out or update.held_until <= now)
        )
        return [*(update for update in self._waiting if not update.late), *late]

    def _is_confirmed_by(self, update: Update, offset: int) -> bool:
        """A late update lies below the offset before it was ever handed out; then another offset confirms it."""
        if update.id >= offset:
            return False
        if not update.late:
            return True
        moved = offset != self._previous_offset
        return update.deliveries >= _MOST_LATE_DELIVERIES or (update.deliveries > 0 and moved)

    def _confirm(self, updates: Iterable[Update]) -> None:
        for update in list(updates):
            self._waiting.remove(update)
            self._confirmed.append(update)
            if self.faults.duplicated():
                self._again.append(update)
