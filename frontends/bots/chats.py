"""Handles what waits in the inbox of a bot: chats side by side, and in order within a chat."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from agent_common.backoff import Backoff
from agent_common.clock import Clock
from agent_common.telemetry import logger

from ..conversation import Bot, Later
from ..people import Person, person_in
from ..platform import Chat, Update
from ..store import (
    Database,
    Waiting,
    finish_in,
    first_waiting_in,
    has_urgent_in,
    note_delay_in,
    waiting_chats_in,
)
from .intake import MAX_WAITING
from .strangers import Strangers

log = logger(__name__)
MAX_AT_ONCE = 64
"""Updates of people that are handled at a time."""
MAX_STRANGERS_AT_ONCE = 2
HANDLE_SECONDS = 300.0
"""The longest that one update may take; files have to be fetched for some."""
MAX_PAUSE_SECONDS = 60.0
"""The longest pause that an agent can ask for."""
ATTEMPTS = 3
BACKOFF = Backoff(1.0, 15.0, jitter=0.5)
"""Between two attempts for one update."""
_DELAYED = "{reason} Your message is kept and will be answered."
_GIVEN_UP = "An error in the bot keeps it from handling your message, which is dropped. The log of the bot says why."
_TOO_MUCH = "{most} messages of yours wait. What you send beyond these is dropped until they are handled."


class Handler(Protocol):
    """What carries out the updates of people."""

    async def handle(self, bot: str, update: Update, person: Person) -> None:
        """Carry out an update, or raise Later. It may be called again for one that it has carried out, if the process
        died before the update ended."""
        ...

    async def tell(self, bot: str, chat: Chat, text: str, *, key: str) -> None:
        """Say something in a chat, once for each key. It comes by the way of all other messages, because one that a
        platform may have is looked for among those that are not known."""
        ...

    async def end_removed(self) -> None:
        """Show nothing more to people who may not use a bot any more."""
        ...


@dataclass(slots=True)
class _Progress:
    """How often a chat was tried since an update of it has ended."""

    update_id: str | None = None
    """The update that was tried last."""
    failures: int = 0
    """Faults of that update, or of the code that handles it."""
    delays: int = 0
    """Faults of others."""
    urgent_first: bool = False
    """Whether the update was delayed, and an urgent one is tried before it is tried again."""


class Chats:
    """The chats of one bot in which updates wait, each with a task."""

    def __init__(
        self,
        bot: Bot,
        database: Database,
        handler: Handler,
        clock: Clock,
        *,
        backoff: Backoff = BACKOFF,
    ) -> None:
        self._bot = bot
        self._database = database
        self._handler = handler
        self._clock = clock
        self._backoff = backoff
        self._strangers = Strangers(bot, database, clock)
        self._people_at_once = asyncio.Semaphore(MAX_AT_ONCE)
        self._strangers_at_once = asyncio.Semaphore(MAX_STRANGERS_AT_ONCE)
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._arrived: dict[str, asyncio.Event] = {}
        """By chat: set when something has arrived since its task last looked."""
        self._refused: dict[str, str] = {}
        """Senders who know that their updates are dropped, and in which chat."""
        self._notices: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Take up what waits from an earlier process."""
        self.wake(await self._database.run(partial(waiting_chats_in, bot=self._bot.name)))

    def wake(self, chats: Iterable[str]) -> None:
        """Handle what has arrived in these chats."""
        for chat in chats:
            self._arrived.setdefault(chat, asyncio.Event()).set()
            if chat not in self._tasks:
                self._tasks[chat] = asyncio.create_task(self._work(chat), name=f"chat {self._bot.name} {chat}")

    def refuse(self, sender: str, chat: Chat) -> None:
        """Inform a person once that what they send is dropped, until all that waits of the chat has been handled."""
        if sender not in self._refused:
            self._refused[sender] = chat.id
            text = _TOO_MUCH.format(most=MAX_WAITING)
            task = asyncio.create_task(self._inform(chat, text, key=f"refused-{self._clock.now_ms()}"))
            self._notices.add(task)
            task.add_done_callback(self._notices.discard)

    async def aclose(self) -> None:
        """Stop. What is cut is handled again by the next process."""
        tasks = [*self._tasks.values(), *self._notices]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _work(self, chat: str) -> None:
        progress = _Progress()
        arrived = self._arrived[chat]
        while True:
            arrived.clear()
            try:
                first = await self._database.run(partial(self._first_in, chat=chat, urgent_first=progress.urgent_first))
                if first is None and not arrived.is_set():
                    break
                if first is not None:
                    if first[0].update.id != progress.update_id:
                        progress.update_id = first[0].update.id
                        progress.failures = 0
                    await self._advance(*first, progress)
            except Exception:
                progress.delays += 1
                log.exception("the inbox failed", bot=self._bot.name, chat=chat)
                await asyncio.sleep(self._backoff.pause(progress.delays))
        del self._tasks[chat], self._arrived[chat]
        self._refused = {sender: where for sender, where in self._refused.items() if where != chat}

    def _first_in(
        self, connection: sqlite3.Connection, chat: str, *, urgent_first: bool
    ) -> tuple[Waiting, Person | None] | None:
        waiting = first_waiting_in(connection, self._bot.name, chat, urgent_first=urgent_first)
        return waiting and (waiting, person_in(connection, self._bot.name, waiting.sender))

    async def _advance(self, waiting: Waiting, person: Person | None, progress: _Progress) -> None:
        """Handle an update and end it, or wait until it is to be tried again."""
        update = waiting.update
        try:
            await self._handle(update, person)
        except Later as later:
            progress.delays += 1
            if person is not None:
                await self._inform_of_delay(waiting, later.reason)
            progress.urgent_first = not waiting.urgent
            pause = self._backoff.pause(progress.delays)
            await self._pause(waiting, pause if later.after is None else min(later.after, MAX_PAUSE_SECONDS))
            return
        except sqlite3.OperationalError:  # the disk is full, and no fault of the update
            raise
        except Exception:
            progress.failures += 1
            log.exception("an update failed", bot=self._bot.name, chat=update.chat.id, update=update.id)
            if progress.failures < ATTEMPTS:
                await asyncio.sleep(self._backoff.pause(progress.failures))
                return
        else:
            progress.failures = 0
        if progress.failures and person is not None:
            await self._inform(update.chat, _GIVEN_UP, key=f"given-up-{update.id}")
        await self._database.run(partial(finish_in, bot=self._bot.name, update_id=update.id, now=self._clock.now_ms()))
        progress.delays = 0
        progress.urgent_first = False

    async def _pause(self, waiting: Waiting, seconds: float) -> None:
        """Wait until an update is to be tried again, or until an urgent one may change how that ends."""
        if waiting.urgent:
            await asyncio.sleep(seconds)
            return
        chat = waiting.update.chat.id
        arrived = self._arrived[chat]
        has_urgent = partial(has_urgent_in, bot=self._bot.name, chat=chat)
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while not await self._database.run(has_urgent):
                    await arrived.wait()
                    arrived.clear()

    async def _handle(self, update: Update, person: Person | None) -> None:
        async with self._strangers_at_once if person is None else self._people_at_once:
            async with asyncio.timeout(HANDLE_SECONDS):
                if person is None:
                    await self._strangers.answer(update)
                else:
                    await self._handler.handle(self._bot.name, update, person)

    async def _inform_of_delay(self, waiting: Waiting, reason: str) -> None:
        update = waiting.update
        if not waiting.delay_notified:
            await self._inform(update.chat, _DELAYED.format(reason=reason), key=f"delayed-{update.id}")
            await self._database.run(partial(note_delay_in, bot=self._bot.name, update_id=update.id))

    async def _inform(self, chat: Chat, text: str, *, key: str) -> None:
        """Say something in the bot's own words."""
        await self._handler.tell(self._bot.name, chat, text, key=f"{self._bot.name}-{key}")
