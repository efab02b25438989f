"""The blackboards of all teams: reads, writes one after the other, watchers, and the end of entries with a ttl."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable, Mapping
from typing import Any, TypeVar

import structlog
from sqlalchemy import Connection, Row, func, select
from sqlalchemy.exc import SQLAlchemyError

from agent_common.clock import Clock
from agent_common.protocol import Cause, Claim, PromotionRule

from ..access import TeamMember
from ..database import BatchWriter, HostDatabase, blackboard_entries, workspaces
from ..errors import TooMany, describe
from ..feeds import Client, FeedMemory, Watch, Watchers
from ..http import Condition
from .board_log import BoardLog
from .changes import LIMITS, BoardLimits, Writer
from .entries import Page, list_entries, read_entry, read_history
from .promoting import PromotedValue, promote_values, refused
from .writing import claim_entry, delete_entry, expire_due, put_entry, release_entry

T = TypeVar("T")
LOOK_SECONDS = 30.0
"""Longest time between two looks for entries that expire, should the clock be set."""
RETRY_SECONDS = 1.0
log = structlog.get_logger(__name__)


class Blackboard:
    """What the agents of each team share under keys. `start` it, and `close` it before the database."""

    def __init__(
        self,
        database: HostDatabase,
        writer: BatchWriter,
        clock: Clock,
        limits: BoardLimits = LIMITS,
        memory: FeedMemory | None = None,
    ) -> None:
        """`memory`: what watchers of the blackboard share with others of the host."""
        self._database = database
        self._writer = writer
        self._clock = clock
        self._limits = limits
        self._watchers = Watchers(memory)
        self._sooner = asyncio.Event()
        """Set when an entry has got a ttl, or this closes."""
        self._promoted: set[str] = set()
        """Teams with changes by results of tasks."""
        self._closing = False
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._expire(), name="blackboard")

    async def close(self) -> None:
        if self._task is not None:
            self._closing = True
            self._sooner.set()
            await self._task
        await self._watchers.close()

    # ---------------------------------------------------------------- reads

    async def get(self, team: str, key: str) -> Row[Any]:
        """Return the entry. Raises NotFound."""
        return await self._database.run(lambda connection: read_entry(connection, team, key, self._clock.now_ms()))

    async def list(self, team: str, prefix: str, after: str | None, limit: int) -> Page:
        """Return a page of entries, by key."""
        now = self._clock.now_ms()
        return await self._database.run(lambda connection: list_entries(connection, team, prefix, after, limit, now))

    async def history(self, team: str, key: str, before: int | None, limit: int) -> Page:
        """Return a page of a key's changes, the newest first. Raises NotFound."""
        return await self._database.run(lambda connection: read_history(connection, team, key, before, limit))

    async def watch(self, team: str, prefix: str, after: int | None, client: Client) -> AsyncGenerator[bytes]:
        """Return changes as server-sent events. Raises TooManyWatchers."""
        return await self._watchers.follow(Watch(BoardLog(self._database, team), prefix, after, client))

    def announce(self, team: str) -> None:
        """Tell watchers of a change that somebody else has written and committed."""
        self._watchers.announce(BoardLog(self._database, team))

    def end_streams(self) -> None:
        """End the streams of all watchers, because the host stops."""
        self._watchers.end_streams()

    # ---------------------------------------------------------------- writes

    async def put(
        self, member: TeamMember, cause: Cause, key: str, value: str, *, ttl: float | None, condition: Condition
    ) -> tuple[Row[Any], bool]:
        """Write a value as JSON. Returns the entry and whether it is new. Raises VersionConflict and BlackboardFull."""

        def write(connection: Connection, writer: Writer) -> tuple[Row[Any], bool]:
            expires_at = None if ttl is None else writer.now + max(1, round(ttl * 1000))
            return put_entry(connection, writer, key, value, expires_at=expires_at, condition=condition)

        written = await self._write(member, cause, write)
        if ttl is not None:
            self._sooner.set()
        return written

    async def delete(self, member: TeamMember, cause: Cause, key: str, condition: Condition) -> None:
        """Delete the entry. Raises NotFound and VersionConflict."""
        await self._write(member, cause, lambda connection, writer: delete_entry(connection, writer, key, condition))

    async def claim(self, member: TeamMember, key: str, seconds: float) -> Claim:
        """Claim the entry, or renew the caller's claim. Raises NotFound and Claimed."""

        def write(connection: Connection, writer: Writer) -> Claim:
            claim_id, until = claim_entry(connection, writer, key, writer.now + max(1, round(seconds * 1000)))
            return Claim(claim_id=claim_id, expires_at=until)

        return await self._write(member, Cause(), write)

    async def release(self, member: TeamMember, key: str) -> None:
        """End the caller's claim; the operator ends anybody's. Raises NotFound and Claimed."""

        def write(connection: Connection, writer: Writer) -> None:
            release_entry(connection, writer, key, any_claim=member.is_operator)

        await self._write(member, Cause(), write)

    # ---------------------------------------------------------------- results of tasks

    def promote_in(
        self, connection: Connection, workspace: str, cause: Cause, values: Mapping[str, Any], rule: PromotionRule
    ) -> list[PromotedValue]:
        """Write what the result of a task promotes, in the caller's transaction and on its thread. Call
        `announce_promoted` once it is committed."""
        team = connection.execute(select(workspaces.c.team).where(workspaces.c.id == workspace)).scalar()
        if team is None:
            return [refused(key, "there is no workspace any more, and so no team") for key in values]
        self._promoted.add(team)
        writer = Writer(team, workspace, cause.model_dump_json(), self._clock.now_ms(), self._limits)
        return promote_values(connection, writer, values, rule)

    def announce_promoted(self) -> None:
        """Tell watchers of what was promoted and committed since the last call."""
        while self._promoted:
            self.announce(self._promoted.pop())

    async def _write(self, member: TeamMember, cause: Cause, write: Callable[[Connection, Writer], T]) -> T:
        text = cause.model_dump_json()

        def unit(connection: Connection) -> T:
            return write(connection, Writer(member.team, member.name, text, self._clock.now_ms(), self._limits))

        future = self._writer.submit(unit)
        future.add_done_callback(lambda _: self.announce(member.team))  # also if the caller has gone away meanwhile
        return await asyncio.shield(future)

    # ---------------------------------------------------------------- entries with a ttl

    async def _expire(self) -> None:
        """Delete entries when their time has come. Nobody has read them since: reads ask for the time too."""
        while not self._closing:
            self._sooner.clear()
            try:
                seconds = await self._expire_due()
            except (SQLAlchemyError, TooMany) as error:
                log.warning("blackboard_expiry_failed", why=describe(error))
                seconds = RETRY_SECONDS
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._sooner.wait()

    async def _expire_due(self) -> float:
        """Delete what is due. Returns the seconds after which to look again."""
        expires = blackboard_entries.c.expires_at
        query = select(func.min(expires)).where(blackboard_entries.c.value.is_not(None) & expires.is_not(None))
        first = await self._database.run(lambda connection: connection.execute(query).scalar())
        if first is None:
            return LOOK_SECONDS
        wait = (first - self._clock.now_ms()) / 1000
        if wait > 0:
            return min(wait, LOOK_SECONDS)
        now = self._clock.now_ms()
        limits = self._limits
        for team in await self._writer.submit(lambda connection: expire_due(connection, now, limits)):
            self.announce(team)
        return 0.0
