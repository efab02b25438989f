"""The latest events of a log in memory, for those who watch it: read once from the database, in their order."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol

import structlog
from sqlalchemy import Connection, Row, Select
from sqlalchemy.exc import SQLAlchemyError

from ..errors import describe
from .feed_memory import FeedMemory
from .feed_reader import FeedReader, LoggedEvent

logger = structlog.get_logger(__name__)
MOST_KEPT = 4096
MOST_KEPT_BYTES = 4 << 20
PAGE = 256
PAGE_BYTES = 256 << 10
"""Of events that a watcher gets at a time, but for the last of them: so much waits for each that reads slowly."""
_EVENT_BYTES = 512
"""What an event takes in memory beside its body."""
_OFFERS_AT_ONCE = 64
LOOK_SECONDS = 5.0
"""Longest time between two looks at the log, for events that nobody has announced. Watchers wake up with each."""
RETRY_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class LogRange:
    """The numbers of the events that are kept; `oldest` is above `newest` if there are none."""

    oldest: int
    newest: int


class Log(Protocol):
    """A log in the database. Two that are the same log are equal."""

    @property
    def name(self) -> str:
        """For the host's own log lines."""
        ...

    @property
    def team(self) -> str:
        """Whose log it is."""
        ...

    async def range(self) -> LogRange:
        """Return which events are kept."""
        ...

    async def read(self, after: int) -> Sequence[LoggedEvent]:
        """Return the next events after a number, without a gap; none if the next one is not there, or no longer."""
        ...

    def __hash__(self) -> int: ...


def read_page(
    connection: Connection, query: Select[Any], after: int, render: Callable[[Row[Any]], LoggedEvent]
) -> list[LoggedEvent]:
    """Return the events of a query that is ordered by their numbers, up to the first gap or the size of a page."""
    found: list[LoggedEvent] = []
    size = 0
    with connection.execute(query.limit(PAGE), execution_options={"yield_per": 64}) as rows:
        for row in rows:
            event = render(row)
            if event.number != after + len(found) + 1 or size >= PAGE_BYTES:
                break
            found.append(event)
            size += len(event.body)
    return found


class LogFeed:
    """Follows one log while somebody watches it."""

    def __init__(self, log: Log, newest: int, memory: FeedMemory) -> None:
        """`newest`: the number of the event from which on it is read."""
        self._log = log
        self._memory = memory
        self.newest = newest
        """Number of the latest event that was read."""
        self._events: dict[int, LoggedEvent] = {}
        self._bytes = 0
        self._stopped = False
        self._woken = asyncio.Event()
        self.readers: set[FeedReader] = set()
        self._task = asyncio.get_running_loop().create_task(self._run(), name=f"feed of {log.name}")

    def announce(self) -> None:
        """Read the log now, because there is something new."""
        self._woken.set()

    def after(self, number: int) -> Sequence[LoggedEvent] | None:
        """Return events after a number, in order; None if they must be read from the log."""
        if number >= self.newest:
            return ()
        if number + 1 not in self._events:
            return None
        found: list[LoggedEvent] = []
        size = 0
        for one in range(number + 1, min(self.newest, number + PAGE) + 1):
            found.append(event := self._events[one])
            if (size := size + len(event.body)) >= PAGE_BYTES:
                break
        return found

    def drop(self, number: int) -> None:
        """Let go of the oldest event; who still waits for it reads it from the log."""
        self._bytes -= _size(self._events.pop(number))

    def stop(self) -> asyncio.Task[None]:
        """End it. Returns its task, which ends once the log is no longer read."""
        self._stopped = True
        self._forget()
        self._woken.set()
        return self._task

    async def _run(self) -> None:
        clock = asyncio.get_running_loop().time
        look_at = 0.0
        while not self._stopped:
            self._woken.clear()
            try:
                while found := await self._log.read(self.newest):
                    self._keep(found)
                    await self._offer(found)
                await self._skip_lost()
            except SQLAlchemyError as error:
                logger.warning("log_unreadable", log=self._log.name, why=describe(error))
                self.wake_readers()
                await asyncio.sleep(RETRY_SECONDS)
                continue
            if clock() >= look_at:  # also where announcements come all the time and nothing with them
                self.wake_readers()
                look_at = clock() + LOOK_SECONDS
            with suppress(TimeoutError):
                async with asyncio.timeout_at(look_at):
                    await self._woken.wait()

    async def _skip_lost(self) -> None:
        """Go on after events that were deleted before they were read; their watchers learn of it from the log."""
        kept = await self._log.range()
        if kept.oldest > self.newest + 1 and kept.newest > self.newest:
            self._forget()
            self.newest = kept.oldest - 1
            self._woken.set()
            self.wake_readers()

    def _keep(self, found: Sequence[LoggedEvent]) -> None:
        for event in () if self._stopped else found:
            size = _size(event)
            self._events[event.number] = event
            self._bytes += size
            self._memory.add(self._log.team, self, event.number, size)
        self.newest = found[-1].number
        while len(self._events) > MOST_KEPT or self._bytes > MOST_KEPT_BYTES:
            self._drop_oldest()

    async def _offer(self, found: Sequence[LoggedEvent]) -> None:
        """Offer the readers what is new, some at a time: their clients read it while others are told."""
        readers = list(self.readers)
        for first in range(0, len(readers), _OFFERS_AT_ONCE):
            now = asyncio.get_running_loop().time()
            for reader in readers[first : first + _OFFERS_AT_ONCE]:
                reader.offer(found, now)
            await asyncio.sleep(0)

    def _forget(self) -> None:
        while self._events:
            self._drop_oldest()

    def _drop_oldest(self) -> None:
        oldest = next(iter(self._events))
        self._memory.remove(self._log.team, self, oldest)
        self.drop(oldest)

    def wake_readers(self) -> None:
        """Have all readers look for themselves."""
        for reader in self.readers:
            reader.woken.set()


def _size(event: LoggedEvent) -> int:
    return len(event.body) + _EVENT_BYTES
