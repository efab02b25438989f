"""Updates on their way to the store: at once, or after the history of their chat that was missed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field

from agent_common.backoff import Backoff

from ..platform import Accept, ChatGone, PlatformError, TemporarilyUnavailable, TokenRejected, Update

_log = logging.getLogger(__name__)

MOST_WAITING = 1000
PAUSES = Backoff(first=1, most=60, jitter=0.5)
"""Between attempts to read a history."""
_BATCH = 100
_OVERLAP = 10_000 << 22
"""Ten seconds in the numbers of messages: the gateway may deliver an older message after a newer one."""
_READERS = 4
"""Histories that are read at once: a chat whose history fails does not hold up the others."""

ReadHistory = Callable[[str, str], AsyncIterator[list[Update]]]
"""Yields what was written in a chat after a message, oldest first."""


@dataclass(slots=True)
class Arrival:
    update: Update
    stored: asyncio.Event = field(default_factory=asyncio.Event)


class Arrivals:
    """Passes each update on once it may be: a message that is stored marks all before it in its chat as read, so those
    that were missed go first."""

    def __init__(
        self,
        accept: Accept,
        read_history: ReadHistory,
        since: Mapping[str, str],
        *,
        most_waiting: int = MOST_WAITING,
        pauses: Backoff = PAUSES,
    ) -> None:
        self._accept = accept
        self._read_history = read_history
        self._most_waiting = most_waiting
        self._pauses = pauses
        self._newest = dict(since)
        """The newest stored message of each chat that the bot takes part in."""
        self._waiting: list[Arrival] = []
        self._missed: dict[str, str] = {}
        """Chats whose history after a message is to be read."""
        self._reading: set[str] = set()
        self._overflowed: set[str] = set()
        """Chats that lost an update since their history was last begun."""
        self._changed = asyncio.Condition()
        self._storing = asyncio.Lock()

    async def put(self, update: Update) -> Arrival | None:
        """Take an update. Returns None if too many wait: a message is then read from the history later, a press or an
        edit is lost."""
        arrival = Arrival(update)
        async with self._changed:
            if len(self._waiting) < self._most_waiting:
                self._waiting.append(arrival)
            else:
                arrival = None
                self._overflow(update)
            self._changed.notify_all()
        return arrival

    async def miss(self) -> None:
        """Have the histories of all chats read: events may have been lost."""
        async with self._changed:
            for chat, newest in self._newest.items():
                self._missed.setdefault(chat, newest)
            self._overflowed |= self._reading
            self._changed.notify_all()

    def _overflow(self, update: Update) -> None:
        if update.kind == "message":
            before = str(int(update.message_id) - 1)
            self._missed.setdefault(update.chat.id, self._newest.get(update.chat.id, before))
            self._overflowed |= self._reading & {update.chat.id}

    async def run(self) -> None:
        """Store what arrives until it is cancelled. Raises what the store raises."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._store_arrivals())
            for _ in range(_READERS):
                group.create_task(self._read_histories())

    # ---------------------------------------------------------------- what arrives

    async def _store_arrivals(self) -> None:
        while True:
            async with self._changed:
                batch = await self._changed.wait_for(self._ready)
            await self._store([arrival.update for arrival in batch])
            async with self._changed:
                done = {id(arrival) for arrival in batch}
                self._waiting = [arrival for arrival in self._waiting if id(arrival) not in done]
            for arrival in batch:
                arrival.stored.set()

    def _ready(self) -> list[Arrival]:
        return [arrival for arrival in self._waiting if arrival.update.chat.id not in self._missed][:_BATCH]

    async def _store(self, updates: list[Update]) -> None:
        async with self._storing:
            await self._accept(updates)
        for update in updates:
            chat = update.chat.id
            if update.addressed or chat in self._newest:
                self._newest[chat] = max(self._newest.get(chat, "0"), update.message_id, key=int)

    # ---------------------------------------------------------------- what was missed

    async def _read_histories(self) -> None:
        failures = 0
        while True:
            async with self._changed:
                open_chats = await self._changed.wait_for(self._missed_chats)
                chat = open_chats[0]
                self._reading.add(chat)
            try:
                await self._read(chat)
                failures = 0
            except TemporarilyUnavailable as error:
                failures += 1
                await asyncio.sleep(max(self._pauses.pause(failures), error.retry_after or 0))
            finally:
                async with self._changed:
                    self._reading.discard(chat)
                    self._changed.notify_all()

    def _missed_chats(self) -> list[str]:
        """The chats to read next: first those in which somebody waits."""
        writing = {arrival.update.chat.id for arrival in self._waiting}
        return sorted(self._missed.keys() - self._reading, key=lambda chat: chat not in writing)

    async def _read(self, chat: str) -> None:
        """Store what was missed in a chat, which then takes what arrives again."""
        self._overflowed.discard(chat)
        after = str(max(int(self._missed[chat]) - _OVERLAP, 0))
        try:
            async for page in self._read_history(chat, after):
                await self._store(page)
                self._missed[chat] = page[-1].message_id
        except (TemporarilyUnavailable, TokenRejected):
            raise
        except ChatGone:
            self._newest.pop(chat, None)
        except PlatformError as error:
            _log.warning("What was missed in the chat %s cannot be read: %s", chat, error)
        if chat not in self._overflowed:
            async with self._changed:
                self._missed.pop(chat, None)
                self._changed.notify_all()
