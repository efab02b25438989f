"""The followers of a bot: a task for each reply whose turn has not ended."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from sqlite3 import Connection

from agent_client import Mesh
from agent_common.clock import Clock
from agent_common.telemetry import logger

from ...people import may_use_in
from ...platform import Platform
from ...store import Database, Reply, chat_in, end_reply_in, lose_post_in, lose_posts_in, running_replies_in
from ..outbox import Outbox
from .follower import Follower

log = logger(__name__)
AGAIN_SECONDS = 10.0


class Followers:
    """Follows turns side by side, and takes up those that an earlier process has followed."""

    def __init__(
        self,
        bot: str,
        platform: Platform,
        outbox: Outbox,
        database: Database,
        mesh: Mesh,
        clock: Clock,
        on_request: Callable[[], None],
    ) -> None:
        self._bot = bot
        self._database = database
        self._outbox = outbox

        def follower(reply: Reply) -> Follower:
            return Follower(reply, platform, outbox, database, mesh, clock, on_request)

        self._follower = follower
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._group: asyncio.TaskGroup | None = None

    async def run(self) -> None:
        """Follow until it is cancelled."""
        try:
            async with asyncio.TaskGroup() as self._group:
                for reply in await self._database.run(lambda connection: running_replies_in(connection, self._bot)):
                    self.start(reply)
                await asyncio.Event().wait()
        finally:
            self._group = None

    def start(self, reply: Reply) -> None:
        """Follow a turn. Before `run` has begun nothing happens: it finds the reply by itself."""
        if self._group is None or reply.key in self._tasks:
            return
        task = self._group.create_task(self._follow(reply), name=f"follower of {reply.message_id}")
        self._tasks[reply.key] = task
        task.add_done_callback(lambda _: self._tasks.pop(reply.key, None))

    async def stop(self, reply: Reply) -> None:
        """Do not follow a turn any more: its message is about to be edited or taken back."""
        if (task := self._tasks.get(reply.key)) is not None:
            task.cancel()
            await asyncio.wait([task])
            self._tasks.pop(reply.key, None)
            self._outbox.end(reply.chat, reply.key)

    async def end_removed(self) -> None:
        """Follow no turn any more of people who may not use the bot now, and show them nothing more."""
        for reply in await self._database.run(partial(running_replies_in, bot=self._bot)):
            if await self._database.run(partial(is_removed_in, reply=reply)):
                await self.stop(reply)
                await self._database.run(partial(_end_removed_in, reply=reply))

    async def _follow(self, reply: Reply) -> None:
        while True:
            try:
                if not await self._database.run(partial(_end_removed_in, reply=reply)):
                    await self._follower(reply).run()
                return
            except Exception:
                log.exception("a follower has failed", bot=self._bot, session=reply.session)
                await asyncio.sleep(AGAIN_SECONDS)


def is_removed_in(connection: Connection, reply: Reply) -> bool:
    """Whether the person whose message started a turn may not use the bot in its chat any more."""
    stored = chat_in(connection, reply.bot, reply.chat)
    return stored is None or not may_use_in(connection, reply.bot, reply.requester, stored.chat)


def _end_removed_in(connection: Connection, reply: Reply) -> bool:
    """End the reply to a person who was removed, and give up what waits to be shown in their private chat. Returns
    False if they were not."""
    if not is_removed_in(connection, reply):
        return False
    end_reply_in(connection, reply.key, "done")
    lose_post_in(connection, reply.key)
    stored = chat_in(connection, reply.bot, reply.chat)
    if stored is not None and stored.chat.private:
        lose_posts_in(connection, reply.bot, reply.chat)
    return True
