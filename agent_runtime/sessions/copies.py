"""Write a session that comes from elsewhere, by a fork or an import, in steps: turns write in between.

It is hidden until it is whole. What a crash or a failure leaves of it is deleted like an old session.
"""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from ..store import Database
from . import retention

STEP_SECONDS = 0.02
"""What one step may take on the writer's thread."""
PAUSE_SECONDS = 0.02
"""Between two steps: turns come first."""
OutOfTime = Callable[[], bool]


class SessionCopy(Protocol):
    """A session that is to be stored. Its methods are parts of units of work, which may run twice."""

    @property
    def session_id(self) -> str: ...

    def begin(self, connection: sqlite3.Connection) -> None:
        """Store the session without messages."""
        ...

    def step(self, connection: sqlite3.Connection, position: int, out_of_time: OutOfTime) -> int | None:
        """Store messages from a position on, and at least one. Returns the next position; None: that was all."""
        ...


async def write_copy(database: Database, copy: SessionCopy, now: int, *, step_seconds: float = STEP_SECONDS) -> None:
    """Store a session durably: a small one in a single unit. Raises StoreError and what `copy` raises."""
    steps = _Steps(copy, step_seconds)
    try:
        position = await database.write(steps.begin, durable=True)
        while position is not None:
            await asyncio.sleep(PAUSE_SECONDS)
            position = await database.write(partial(steps.take, position), durable=True)
    except BaseException:
        with suppress(RuntimeError):  # the database is closed; the next start gives it up
            database.write(partial(steps.give_up, now)).add_done_callback(_ignore_result)
        raise


@dataclass(slots=True)
class _Steps:
    copy: SessionCopy
    seconds: float
    hidden: bool = False
    """Whether a part of the session is stored."""

    def begin(self, connection: sqlite3.Connection) -> int | None:
        self.copy.begin(connection)
        position = self.copy.step(connection, 0, self._timer())
        self.hidden = position is not None
        if self.hidden:
            retention.hide_unfinished(connection, self.copy.session_id)
        return position

    def take(self, position: int, connection: sqlite3.Connection) -> int | None:
        following = self.copy.step(connection, position, self._timer())
        if following is None:
            retention.show_finished(connection, self.copy.session_id)
        return following

    def give_up(self, now: int, connection: sqlite3.Connection) -> None:
        if self.hidden:  # else another session may have the id
            retention.give_up_unfinished(connection, now, self.copy.session_id)

    def _timer(self) -> OutOfTime:
        end = time.monotonic() + self.seconds
        return lambda: time.monotonic() >= end


def _ignore_result(done: asyncio.Future[None]) -> None:
    if not done.cancelled():
        done.exception()  # it stays hidden; the next start gives it up
