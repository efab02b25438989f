"""The log of a team's changes, for those who watch it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Row, select

from ..database import HostDatabase, blackboard_changes, blackboards
from ..feeds import LoggedEvent, LogRange, read_page
from .entries import render_change


@dataclass(frozen=True, slots=True)
class BoardLog:
    """The changes of one team's blackboard."""

    database: HostDatabase
    team: str

    @property
    def name(self) -> str:
        return f"the blackboard of {self.team}"

    async def range(self) -> LogRange:
        query = select(blackboards.c.oldest, blackboards.c.newest).where(blackboards.c.team == self.team)
        row = await self.database.run(lambda connection: connection.execute(query).first())
        return LogRange(row.oldest, row.newest) if row is not None else LogRange(1, 0)

    async def read(self, after: int) -> Sequence[LoggedEvent]:
        table = blackboard_changes
        query = select(table).where((table.c.team == self.team) & (table.c.number > after)).order_by(table.c.number)
        return await self.database.run(lambda connection: read_page(connection, query, after, _event))


def _event(row: Row[Any]) -> LoggedEvent:
    body = b"id: %d\nevent: %b\ndata: %b\n\n" % (row.number, row.kind.encode(), render_change(row))
    return LoggedEvent(row.number, row.key, body)
