"""Updates on their way into the inbox: which are kept, and how many of one sender."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial

from agent_common.clock import Clock
from agent_common.telemetry import Seldom, logger

from ..conversation import Bot, is_urgent
from ..people import Person, identity_of, note_private_chat_in, person_in
from ..platform import Chat, Update
from ..store import (
    Database,
    add_in,
    count_waiting_in,
    count_waiting_of_strangers_in,
    finish_in,
    is_known_in,
    note_move_in,
)
from .albums import with_whole_albums

log = logger(__name__)
MAX_WAITING = 20
"""Updates of one person that wait for one bot."""
MAX_URGENT = 10
"""Urgent ones beyond these: one of them may end what the others wait for."""
MAX_WAITING_OF_STRANGER = 2
MAX_WAITING_OF_STRANGERS = 100
"""Updates of all strangers together that wait for one bot."""


@dataclass(slots=True)
class _Taken:
    """What became of some updates."""

    stored: set[str] = field(default_factory=set[str])
    """The chats in which something waits now."""
    refused: dict[str, Chat] = field(default_factory=dict[str, Chat])
    """By sender: the last chat in which an update of a person was dropped."""
    dropped: int = 0


class Intake:
    """Stores the updates of one bot. `wake` is called with the chats in which something waits, `refuse` with the chat
    of a person who has sent too much."""

    def __init__(
        self,
        bot: Bot,
        database: Database,
        clock: Clock,
        *,
        wake: Callable[[Iterable[str]], None],
        refuse: Callable[[str, Chat], None],
    ) -> None:
        self._bot = bot
        self._database = database
        self._clock = clock
        self._wake = wake
        self._refuse = refuse
        self._seldom = Seldom()

    async def accept(self, updates: Sequence[Update]) -> None:
        """Store the updates that are to be handled. They are on disk when this returns."""
        taken = await self._database.run(partial(self._take_all_in, updates=updates, now=self._clock.now_ms()))
        self._wake(taken.stored)
        for sender, chat in taken.refused.items():
            self._refuse(sender, chat)
        if taken.dropped and (skipped := self._seldom.count_event("dropped")) is not None:
            log.warning("updates dropped", bot=self._bot.name, updates=taken.dropped, lines_not_written=skipped)

    def _take_all_in(self, connection: sqlite3.Connection, updates: Sequence[Update], now: int) -> _Taken:
        taken = _Taken()
        new = {one.id: one for one in updates if not is_known_in(connection, self._bot.name, one.id)}
        for update, parts in with_whole_albums(new.values()):
            self._take_in(connection, update, parts, taken, now)
        return taken

    def _take_in(
        self, connection: sqlite3.Connection, update: Update, parts: Sequence[Update], taken: _Taken, now: int
    ) -> None:
        name = self._bot.name
        chat = update.chat
        if update.kind == "move":
            note_move_in(connection, name, chat.id, update.text)
            return
        sender = identity_of(self._bot.platform.name, update.sender)
        person = person_in(connection, name, sender)
        if not _is_wanted(update, person):
            return
        urgent = person is not None and is_urgent(update)
        if _may_wait_in(connection, name, sender, person, urgent=urgent):
            add_in(connection, name, update, sender=sender, stranger=person is None, now=now, urgent=urgent)
            for part in parts:  # alone it would be another message when it comes again
                add_in(connection, name, part, sender=sender, stranger=person is None, now=now)
                finish_in(connection, name, part.id, now=now)
            taken.stored.add(chat.id)
        else:
            taken.dropped += 1
            if person is not None:
                taken.refused[sender] = chat
        if person is not None and chat.private:
            note_private_chat_in(connection, name, sender, chat.id)


def _is_wanted(update: Update, person: Person | None) -> bool:
    """Whether an update is meant for the bot. In a group, of what strangers do only presses of buttons are answered."""
    if person is not None:
        return update.addressed
    return update.chat.private or update.kind == "button"


def _may_wait_in(connection: sqlite3.Connection, bot: str, sender: str, person: Person | None, *, urgent: bool) -> bool:
    waiting = count_waiting_in(connection, bot, sender)
    if person is not None:
        return waiting < MAX_WAITING + MAX_URGENT * urgent
    return (
        waiting < MAX_WAITING_OF_STRANGER and count_waiting_of_strangers_in(connection, bot) < MAX_WAITING_OF_STRANGERS
    )
