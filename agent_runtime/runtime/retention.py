"""Delete old sessions a little at a time, so that the database does not grow for ever."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

from agent_common.telemetry import logger

from ..errors import AgentRuntimeError, StoreError
from ..loop import MAIN_ALIAS, delete_tasks
from ..mediation import needed_sessions
from ..ports import Clock
from ..sessions import retention
from ..sessions.retention import DAY_MS, ID_DAYS, OldSessions
from ..store import Database, Unit, release_free_pages
from ..workspace import Home

log = logger(__name__)
T = TypeVar("T")
PASS_SECONDS = 3600.0
"""Seconds between two passes."""
STEP_SECONDS = 0.02
"""Seconds that one step may keep the writer's thread, for which turns wait."""
PAUSE_SECONDS = 0.05
"""Seconds between two steps, in which turns come first."""
SESSIONS_AT_ONCE = 50
MESSAGES_AT_ONCE = 50


@dataclass(frozen=True, slots=True)
class RetentionLimits:
    """What is kept. Nought is without a limit."""

    days: int
    rows: int
    """Parts of messages."""


class SessionsInUse(Protocol):
    """The sessions in memory."""

    def ids_in_use(self) -> Sequence[str]: ...

    def evict(self, session_id: str) -> None: ...


@dataclass(frozen=True, slots=True)
class SessionData:
    """What other packages keep of sessions."""

    sessions_in_use: SessionsInUse
    home: Home
    forget_messages: Callable[[Sequence[str]], Awaitable[None]]
    """Takes messages out of memory's index."""


class SessionRetention:
    """Makes a pass at its start, and then one an hour, until it is closed."""

    def __init__(
        self,
        database: Database,
        clock: Clock,
        limits: RetentionLimits,
        session_data: SessionData,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self._database = database
        self._clock = clock
        self._limits = limits
        self._session_data = session_data
        self._sleep = sleep
        self._aging_time_ms: int | None = None
        """The time by which sessions are aged; none before the first look."""
        self._stored_time_ms = self._last_pass = 0.0
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name="retention")

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    async def sweep(self) -> int:
        """Delete all sessions that are too old now. Return their number. Raises StoreError."""
        gone = await self._delete_marked()
        if self._limits.days or self._limits.rows:
            now = await self._advance_clock()
            for old in await self._old(now):
                gone += await self._delete(old)
        return gone

    async def _delete(self, old: OldSessions) -> int:
        """Delete these sessions. Return their number."""
        gone = 0
        while found := await self._read(lambda connection: retention.find_old(connection, old, SESSIONS_AT_ONCE)):
            marked = await self._mark(found, old)
            gone += await self._delete_marked()
            if not marked:  # all of them are in use
                break
        return gone

    # -- which

    async def _old(self, now: int) -> list[OldSessions]:
        """Return which sessions are too old. Those of the last week, in which ids are known, never are."""
        needed = [*self._session_data.sessions_in_use.ids_in_use(), *await self._read(needed_sessions)]
        latest = OldSessions(now - ID_DAYS * DAY_MS, needed, MAIN_ALIAS)
        by_age = now - max(self._limits.days, ID_DAYS) * DAY_MS if self._limits.days else 0
        most = self._limits.rows
        old = [replace(latest, before=by_age)]
        if most:
            old += await self._read(lambda connection: retention.excess_sessions(connection, most, latest))
        return old

    async def _advance_clock(self) -> int:
        """The time by which sessions are aged: it follows the wall clock, at twice the speed of time at most, so that
        no jump of the wall clock makes everything old at once."""
        wall = self._clock.now_ms()
        monotonic = self._clock.monotonic()
        if self._aging_time_ms is None:
            reached = await self._read(lambda connection: retention.read_clock(connection, wall))
        else:
            reached = min(wall, self._aging_time_ms + round(2000 * (monotonic - self._last_pass)))
        if self._aging_time_ms is None or abs(reached - self._stored_time_ms) >= DAY_MS:
            await self._database.write(lambda connection: retention.save_clock(connection, wall, reached))
            self._stored_time_ms = reached
        self._aging_time_ms = reached
        self._last_pass = monotonic
        return reached

    # -- deleting

    async def _mark(self, session_ids: Sequence[str], old: OldSessions) -> list[str]:
        now = self._clock.now_ms()
        needed = [*old.needed, *self._session_data.sessions_in_use.ids_in_use()]
        sure = replace(old, needed=needed)
        return await self._database.write(lambda connection: retention.mark(connection, session_ids, sure, now))

    async def _delete_marked(self) -> int:
        """Delete what is marked, also by an earlier process. Return the number of sessions."""
        going = await self._read(retention.marked_sessions)
        if not going:
            return 0
        for session_id in going:
            self._session_data.sessions_in_use.evict(session_id)
            await self._remove_scratch(session_id)
        while messages := await self._read(lambda connection: retention.next_messages(connection, MESSAGES_AT_ONCE)):
            await self._session_data.forget_messages(messages)
            await self._step(lambda connection, ids=messages: _delete(connection, ids))
        prompts = await self._read(retention.unused_prompts)
        gone = await self._step(lambda connection: retention.delete_sessions(connection, prompts))
        for session_id in going:  # a request may have read it at the last moment
            self._session_data.sessions_in_use.evict(session_id)
        while await self._step(lambda connection: release_free_pages(connection, _timer())):
            pass
        return gone

    async def _remove_scratch(self, session_id: str) -> None:
        home = self._session_data.home
        try:
            if home.scratch(session_id).is_dir():
                await asyncio.to_thread(home.remove_scratch, session_id)
        except (OSError, ValueError) as error:  # an imported session may have an id that names no folder
            log.warning("the scratch folder of an old session stays", session_id=session_id, reason=str(error))

    async def _step(self, unit: Unit[int]) -> int:
        done = await self._database.write(unit)
        await self._sleep(PAUSE_SECONDS)
        return done

    async def _read(self, unit: Unit[T]) -> T:
        return await self._database.read_long(unit)

    async def _give_up_unfinished(self) -> None:
        """Mark what the last process did not finish writing: before this one takes requests, so none of its own."""
        now = self._clock.now_ms()
        try:
            await self._database.write(lambda connection: retention.give_up_unfinished(connection, now))
        except StoreError as error:  # it stays hidden, until the next start
            log.error("unfinished sessions could not be marked", reason=error.message)

    async def _run(self) -> None:
        await self._give_up_unfinished()
        while True:
            try:
                if gone := await self.sweep():
                    log.info("old sessions deleted", count=gone)
            except AgentRuntimeError as error:  # a disk that fails now may work in an hour
                log.error("old sessions could not be deleted", reason=error.message)
            except Exception:  # a bug in here must not end all passes
                log.exception("old sessions could not be deleted")
            await self._sleep(PASS_SECONDS)


def _delete(connection: sqlite3.Connection, message_ids: Sequence[str]) -> int:
    gone = retention.delete_messages(connection, message_ids, _timer())
    delete_tasks(connection, gone)
    return len(gone)


def _timer() -> Callable[[], bool]:
    """Return a function that says whether the time of a step that begins now is over."""
    end = time.monotonic() + STEP_SECONDS
    return lambda: time.monotonic() >= end
