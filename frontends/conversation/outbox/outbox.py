"""The outbox of a bot: a writer for each chat in which something is to be shown."""

from __future__ import annotations

import asyncio

from agent_common.telemetry import logger

from ...platform import Platform
from ...store import Database, chats_with_posts_in
from .writer import ChatWriter, Draft

log = logger(__name__)
AGAIN_SECONDS = 5.0


class Outbox:
    """Brings the posts of a bot to its platform, chats side by side. Posts are added in the database, then `wake`."""

    def __init__(self, bot: str, platform: Platform, database: Database) -> None:
        self._bot = bot
        self._platform = platform
        self._database = database
        self._writers: dict[str, ChatWriter] = {}
        self._group: asyncio.TaskGroup | None = None

    async def run(self) -> None:
        """Write until it is cancelled, beginning with what an earlier process left."""
        self._writers.clear()
        try:
            async with asyncio.TaskGroup() as self._group:
                for chat in await self._database.run(lambda connection: chats_with_posts_in(connection, self._bot)):
                    self.wake(chat)
                await asyncio.Event().wait()
        finally:
            self._group = None

    def wake(self, chat: str) -> None:
        """Show the posts of a chat. Before `run` has begun nothing happens: it looks by itself."""
        if self._group is None:
            return
        if (writer := self._writers.get(chat)) is None:
            writer = self._writers[chat] = ChatWriter(self._platform, self._database, self._bot, chat)
            self._group.create_task(self._run(chat, writer), name=f"writer of {self._bot} {chat}")
        writer.wake()

    def show(self, chat: str, key: str, draft: Draft) -> None:
        """Let the post of a turn that runs look like this."""
        self.wake(chat)
        if (writer := self._writers.get(chat)) is not None:
            writer.drafts[key] = draft

    def end(self, chat: str, key: str) -> None:
        """The turn of a post has ended, or is not followed any more: the post looks as the database has it."""
        if (writer := self._writers.get(chat)) is not None:
            writer.drafts.pop(key, None)
        self.wake(chat)

    async def _run(self, chat: str, writer: ChatWriter) -> None:
        while True:
            try:
                await writer.run()
                break
            except Exception:
                log.exception("a writer has failed", bot=self._bot, chat=chat)
                await asyncio.sleep(AGAIN_SECONDS)
        if self._writers.get(chat) is writer:  # nothing has been awaited since it was idle
            del self._writers[chat]
