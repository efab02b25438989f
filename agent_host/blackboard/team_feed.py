"""The latest changes of a team in memory, for those who watch: read once from the log, in its order."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from dataclasses import dataclass

import structlog
from sqlalchemy import Connection, select
from sqlalchemy.exc import SQLAlchemyError

from ..database import HostDatabase, blackboard_changes, blackboards
from .entries import render_change

log = structlog.get_logger(__name__)
MOST_KEPT = 4096
MOST_KEPT_BYTES = 4 << 20
PAGE = 256
_PAGE_BYTES = 1 << 20
LOOK_SECONDS = 5.0
"""Longest time between two looks at the log, for changes of which nobody has told."""
RETRY_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class LoggedChange:
    """A change as watchers get it."""

    number: int
    key: str
    body: bytes
    """The server-sent event."""


@dataclass(frozen=True, slots=True)
class LogRange:
    """The numbers of the changes that are kept; `oldest` is above `newest` if there are none."""

    oldest: int
    newest: int


async def log_range(database: HostDatabase, team: str) -> LogRange:
    """Return which changes of a team are kept."""
    query = select(blackboards.c.oldest, blackboards.c.newest).where(blackboards.c.team == team)
    row = await database.run(lambda connection: connection.execute(query).first())
    return LogRange(row.oldest, row.newest) if row is not None else LogRange(1, 0)


async def read_changes(database: HostDatabase, team: str, after: int) -> list[LoggedChange]:
    """Return the next changes after a number, without a gap; none if the next one is not there, or no longer."""
    return await database.run(lambda connection: _read(connection, team, after))


def _read(connection: Connection, team: str, after: int) -> list[LoggedChange]:
    table = blackboard_changes
    query = select(table).where((table.c.team == team) & (table.c.number > after)).order_by(table.c.number).limit(PAGE)
    found: list[LoggedChange] = []
    size = 0
    with connection.execute(query, execution_options={"yield_per": 64}) as rows:
        for row in rows:
            if row.number != after + len(found) + 1 or size >= _PAGE_BYTES:
                break
            body = b"id: %d\nevent: %b\ndata: %b\n\n" % (row.number, row.kind.encode(), render_change(row))
            found.append(LoggedChange(row.number, row.key, body))
            size += len(body)
    return found


class TeamFeed:
    """Follows the log of one team while somebody watches it."""

    def __init__(self, database: HostDatabase, team: str, newest: int) -> None:
        """`newest`: the number of the change from which on it is read."""
        self._database, self._team = database, team
        self.newest = newest
        """Number of the latest change that was read."""
        self._changes: dict[int, LoggedChange] = {}
        self._bytes = 0
        self._stopped = False
        self._woken = asyncio.Event()
        self.news = asyncio.Event()
        """Set when there is more; replaced by another one then."""
        self.watchers = 0
        self._task = asyncio.get_running_loop().create_task(self._run(), name=f"changes of the team {team}")

    def announce(self) -> None:
        """Read the log now, because there is something new."""
        self._woken.set()

    def after(self, number: int) -> Sequence[LoggedChange] | None:
        """Return changes after a number, in order; None if they must be read from the log."""
        if number >= self.newest:
            return ()
        if number + 1 not in self._changes:
            return None
        last = min(self.newest, number + PAGE)
        return [self._changes[one] for one in range(number + 1, last + 1)]

    def stop(self) -> asyncio.Task[None]:
        """End it. Returns its task, which ends once the log is no longer read."""
        self._stopped = True
        self._woken.set()
        return self._task

    async def _run(self) -> None:
        while not self._stopped:
            self._woken.clear()
            try:
                while found := await read_changes(self._database, self._team, self.newest):
                    self._keep(found)
                await self._skip_lost()
            except SQLAlchemyError as error:
                log.warning("blackboard_unreadable", team=self._team, why=str(error).splitlines()[0])
                await asyncio.sleep(RETRY_SECONDS)
                continue
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LOOK_SECONDS):
                    await self._woken.wait()

    async def _skip_lost(self) -> None:
        """Go on after changes that were deleted before they were read; their watchers learn of it from the log."""
        kept = await log_range(self._database, self._team)
        if kept.oldest > self.newest + 1 and kept.newest > self.newest:
            self._changes.clear()
            self._bytes, self.newest = 0, kept.oldest - 1
            self._woken.set()
            self._wake()

    def _keep(self, found: Sequence[LoggedChange]) -> None:
        for change in found:
            self._changes[change.number] = change
            self._bytes += len(change.body)
        self.newest = found[-1].number
        while len(self._changes) > MOST_KEPT or self._bytes > MOST_KEPT_BYTES:
            oldest = next(iter(self._changes))
            self._bytes -= len(self._changes.pop(oldest).body)
        self._wake()

    def _wake(self) -> None:
        self.news.set()
        self.news = asyncio.Event()
