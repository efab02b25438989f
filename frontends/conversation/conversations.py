"""The conversations of all bots: what `frontends.bots` starts, and gives the updates of people to."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Sequence

from agent_client import Mesh
from agent_common.clock import Clock, SystemClock
from agent_common.telemetry import logger

from ..people import Person
from ..platform import Chat, Piece, Update
from ..store import (
    Database,
    add_post_in,
    prune_offers_in,
    prune_posts_in,
    prune_replies_in,
    prune_requests_in,
    remember_chat_in,
)
from .bot import Bot
from .context import Context
from .dispatch import Dispatch
from .notices import HostEvents, OperatorNotices
from .outbox import Outbox
from .replies import Followers
from .requests import Waiting

log = logger(__name__)
KEPT_MS = 30 * 24 * 3600 * 1000
"""How long a reply is known: until then its message can be replied to."""
PRUNE_SECONDS = 3600.0


class Conversations:
    """Between the platforms and the agents. All that it must not forget is in the database; `run` takes it up again."""

    def __init__(
        self,
        bots: Sequence[Bot],
        database: Database,
        mesh: Mesh,
        clock: Clock | None = None,
        notify: Sequence[str] = (),
    ) -> None:
        """`notify` has URLs of apprise for the operator's notices."""
        self._database = database
        self._clock = clock or SystemClock()
        self._operator = OperatorNotices(notify)
        self._bots = {bot.name: self._parts(bot, mesh) for bot in bots}
        self._events = HostEvents(self._bots, database, mesh, self._clock, self._operator)

    def _parts(self, bot: Bot, mesh: Mesh) -> tuple[Context, Waiting]:
        outbox = Outbox(bot.name, bot.platform, self._database)
        waiting = Waiting(bot, outbox, self._database, mesh, self._clock)
        followers = Followers(bot.name, bot.platform, outbox, self._database, mesh, self._clock, waiting.look)
        return Context(bot, outbox, followers, self._database, mesh, self._clock), waiting

    async def run(self) -> None:
        """Bring posts to the platforms, follow turns and events, until it is cancelled."""
        async with asyncio.TaskGroup() as group:
            for context, waiting in self._bots.values():
                group.create_task(context.outbox.run(), name=f"outbox of {context.bot.name}")
                group.create_task(context.followers.run(), name=f"followers of {context.bot.name}")
                group.create_task(waiting.run(), name=f"requests of {context.bot.name}")
            group.create_task(self._events.run(), name="events of the host")
            group.create_task(self._operator.run(), name="notices for the operator")
            group.create_task(self._prune(), name="retention of conversations")

    async def handle(self, bot: str, update: Update, person: Person) -> None:
        """Carry out an update of a person and end it. It may be called again for one that was carried out, if the
        process died before the update had ended. Raises Later."""
        context, _ = self._bots[bot]
        await Dispatch(context).handle(update, person)

    async def tell(self, bot: str, chat: Chat, text: str, *, key: str) -> None:
        """Say something in a chat, once for each key."""
        now = self._clock.now_ms()

        def work(connection: sqlite3.Connection) -> None:
            remember_chat_in(connection, bot, chat)
            add_post_in(connection, bot, chat.id, key, [Piece(text)], now=now)

        await self._database.run(work)
        self._bots[bot][0].outbox.wake(chat.id)

    async def end_removed(self) -> None:
        """Show nothing more to people who may not use a bot any more."""
        for context, _ in self._bots.values():
            await context.followers.end_removed()

    async def _prune(self) -> None:
        while True:
            before = self._clock.now_ms() - KEPT_MS

            def work(connection: sqlite3.Connection, before: int = before) -> int:
                counts = (
                    prune_posts_in(connection, before=before),
                    prune_replies_in(connection),
                    prune_requests_in(connection, before=before),
                    prune_offers_in(connection, before=before),
                )
                return sum(counts)

            log.debug("old conversations are forgotten", rows=await self._database.run(work))
            await asyncio.sleep(PRUNE_SECONDS)
