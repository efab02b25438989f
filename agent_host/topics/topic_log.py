"""The log of a topic, for those who watch it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Row, select

from ..database import HostDatabase, topics
from ..feeds import LoggedEvent, LogRange, read_page
from .messages import messages_after, render_message


@dataclass(frozen=True, slots=True)
class TopicLog:
    """The messages of one topic of a team."""

    database: HostDatabase
    team: str
    topic: str

    @property
    def name(self) -> str:
        return f"the topic {self.topic} of {self.team}"

    async def range(self) -> LogRange:
        mine = (topics.c.team == self.team) & (topics.c.name == self.topic)
        query = select(topics.c.oldest, topics.c.newest).where(mine)
        row = await self.database.run(lambda connection: connection.execute(query).first())
        return LogRange(row.oldest, row.newest) if row is not None else LogRange(1, 0)

    async def read(self, after: int) -> Sequence[LoggedEvent]:
        query = messages_after(self.team, self.topic, after)
        return await self.database.run(lambda connection: read_page(connection, query, after, _event))


def _event(row: Row[Any]) -> LoggedEvent:
    body = b"id: %d\nevent: message\ndata: %b\n\n" % (row.seq, render_message(row))
    return LoggedEvent(row.seq, "", body)
