"""The followers of a bot: a task for each reply whose turn has not ended."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from agent_client import Mesh
from agent_common.clock import Clock
from agent_common.telemetry import logger

from ...platform import Platform
from ...store import Database, Reply, running_replies_in
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
        self._bot, self._database, self._outbox = bot, database, outbox

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

    async def _follow(self, reply: Reply) -> None:
        while True:
            try:
                await self._follower(reply).run()
                return
            except Exception:
                log.exception("a follower has failed", bot=self._bot, session=reply.session)
                await asyncio.sleep(AGAIN_SECONDS)
