"""The topics of all teams: publishing, reading and watching."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncGenerator, Callable
from functools import partial

from agent_common.clock import Clock
from agent_common.protocol import Cause, Published

from ..access import TeamMember
from ..database import BatchWriter, HostDatabase
from ..feeds import Client, FeedMemory, Watch, Watchers
from .messages import LIMITS, MessagePage, NewMessage, TopicLimits, delete_topic, publish, read_messages
from .topic_log import TopicLog


class Topics:
    """Messages that agents of a team publish. Close it before the database."""

    def __init__(
        self,
        database: HostDatabase,
        writer: BatchWriter,
        clock: Clock,
        limits: TopicLimits = LIMITS,
        memory: FeedMemory | None = None,
    ) -> None:
        """`memory`: what watchers of topics share with others of the host."""
        self._database = database
        self._writer = writer
        self._clock = clock
        self._limits = limits
        self._watchers = Watchers(memory)
        self.on_published: Callable[[str, str], None] = _ignore
        """Called with the team and the topic of a message that is on disk."""

    async def close(self) -> None:
        await self._watchers.close()

    def end_streams(self) -> None:
        """End the streams of all watchers, because the host stops."""
        self._watchers.end_streams()

    async def publish(
        self, member: TeamMember, cause: Cause, topic: str, message_id: str | None, data: str
    ) -> tuple[Published, bool]:
        """Store a message, whose data are JSON. Returns it, and whether it is new. Raises Conflict and TopicsFull."""
        chosen = message_id or f"msg_{secrets.token_hex(16)}"
        text = cause.model_dump_json()
        now = self._clock.now_ms()
        message = NewMessage(member.team, topic, chosen, data, member.name, text, now)
        future = self._writer.submit(lambda connection: publish(connection, message, self._limits))
        log = TopicLog(self._database, member.team, topic)
        future.add_done_callback(lambda _: self._announce(log))  # also if the caller has gone away meanwhile
        seq, created = await asyncio.shield(future)
        return Published(id=chosen, seq=seq), created

    def _announce(self, log: TopicLog) -> None:
        self._watchers.announce(log)
        self.on_published(log.team, log.topic)

    async def delete(self, team: str, topic: str) -> None:
        """Delete the topic with its messages. Raises NotFound."""
        await asyncio.shield(self._writer.submit(partial(delete_topic, team=team, name=topic)))

    async def messages(self, team: str, topic: str, after: int, limit: int) -> MessagePage:
        """Return stored messages after a seq, the oldest first. Raises NotFound."""
        return await self._database.run(lambda connection: read_messages(connection, team, topic, after, limit))

    async def watch(self, team: str, topic: str, after: int | None, client: Client) -> AsyncGenerator[bytes]:
        """Return messages as server-sent events. Raises TooManyWatchers."""
        return await self._watchers.follow(Watch(TopicLog(self._database, team, topic), "", after, client))


def _ignore(_team: str, _topic: str) -> None:
    return
