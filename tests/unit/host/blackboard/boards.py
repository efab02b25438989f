"""Blackboards without HTTP: one host or several on one database."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

from agent_common.clock import Clock, SystemClock
from agent_common.protocol import Cause
from agent_host.access import TeamMember
from agent_host.blackboard import Blackboard
from agent_host.blackboard.changes import LIMITS, BoardLimits
from agent_host.database import BatchWriter, open_database
from agent_host.feeds import Client
from agent_host.http import ALWAYS, Condition


@dataclass(frozen=True, slots=True)
class Board:
    """A blackboard as one member sees it."""

    board: Blackboard
    member: TeamMember

    def of(self, name: str, team: str = "default") -> Board:
        return Board(self.board, TeamMember(name, team, is_operator=False))

    async def put(self, key: str, value: Any, condition: Condition = ALWAYS, ttl: float | None = None) -> int:
        """Returns the version."""
        text = json.dumps(value)
        row, _ = await self.board.put(self.member, Cause(), key, text, ttl=ttl, condition=condition)
        return row.version

    async def delete(self, key: str) -> None:
        await self.board.delete(self.member, Cause(), key, ALWAYS)

    async def get(self, key: str) -> tuple[Any, int]:
        """Value and version."""
        row = await self.board.get(self.member.team, key)
        return json.loads(row.value), row.version

    async def keys(self) -> list[str]:
        return [row.key for row in (await self.board.list(self.member.team, "", None, 1000)).rows]

    async def versions(self, key: str) -> list[int]:
        return [row.version for row in (await self.board.history(self.member.team, key, None, 1000)).rows]

    async def changes(self, after: int | None = None) -> AsyncGenerator[tuple[int, str, dict[str, Any]]]:
        """Number, kind and data of each event."""
        async for piece in await self.board.watch(self.member.team, "", after, Client(self.member.name, _always)):
            for event in piece.split(b"\n\n"):
                fields = dict(line.split(b": ", 1) for line in event.splitlines() if not line.startswith(b":"))
                if b"data" in fields:
                    yield int(fields[b"id"]), fields[b"event"].decode(), json.loads(fields[b"data"])


async def _always() -> bool:
    return True


@asynccontextmanager
async def opened(url: str, limits: BoardLimits = LIMITS, clock: Clock | None = None) -> AsyncGenerator[Board]:
    """The blackboard of a host on this database."""
    async with AsyncExitStack() as stack:
        database = open_database(url)
        stack.callback(database.close)
        writer = BatchWriter(database, "test")
        stack.push_async_callback(writer.close)
        board = Blackboard(database, writer, clock or SystemClock(), limits)
        stack.push_async_callback(board.close)
        board.start()
        yield Board(board, TeamMember("ann", "default", is_operator=False))
