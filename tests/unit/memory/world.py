"""A memory over a real database and a real home, and people who talk to its agent."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agent_common.redaction import Redactor
from agent_runtime.memory import MemoryAnswer, MemoryService, SavedFact
from agent_runtime.memory.service import NOT_INDEXED_YET
from agent_runtime.ports import MemoryHit
from agent_runtime.runtime import MIGRATIONS
from agent_runtime.sessions import (
    Branch,
    Ids,
    Marker,
    MessageRow,
    NewSession,
    NewTurn,
    branches,
    markers,
    plan_fork,
    rows,
)
from agent_runtime.sessions.store.rows import PartRow
from agent_runtime.store import Database
from agent_runtime.workspace import Home
from agent_testing import ManualClock
from tests.unit.sessions.message_log import write_at_once

Unit = Callable[[sqlite3.Connection], Any]


@dataclass
class World:
    database: Database
    home: Home
    clock: ManualClock
    memory: MemoryService
    ids: Ids = field(init=False)

    def __post_init__(self) -> None:
        self.ids = Ids(self.clock)

    # -- memory

    async def save(self, text: str, principal: str = "ada", tags: Sequence[str] = ()) -> SavedFact:
        return await self.memory.save(text, principal=principal, session_id="ses_1", tags=tags)

    async def answer(self, query: str, principal: str = "ada", **more: Any) -> MemoryAnswer:
        """Search until everything could be searched: one search waits for the index for a moment only."""
        async with asyncio.timeout(60):
            while NOT_INDEXED_YET in (answer := await self.memory.search(query, principal=principal, **more)).missing:
                pass
        await self.write(lambda _: None)  # uses are noted a moment later
        return answer

    async def search(self, query: str, principal: str = "ada", **more: Any) -> list[MemoryHit]:
        return (await self.answer(query, principal, **more)).found

    async def texts(self, query: str, principal: str = "ada", **more: Any) -> list[str]:
        return [one.text for one in await self.search(query, principal, **more)]

    # -- sessions

    async def write(self, unit: Unit) -> Any:
        return await self.database.write(unit)

    async def rows(self, query: str, *values: Any) -> list[sqlite3.Row]:
        return await self.database.read(lambda connection: connection.execute(query, values).fetchall())

    async def count(self, table: str) -> int:
        return (await self.rows(f"SELECT count(*) FROM {table}"))[0][0]  # noqa: S608

    async def begin(self, principal: str = "ada", parent: tuple[str, str] | None = None) -> str:
        """A session."""
        session = NewSession(
            self.ids.new("ses"), principal, "default", "/ws", "m", "a prompt", "digest", (), parent=parent
        )
        await self.write(lambda connection: rows.insert_session(connection, session, self.clock.now_ms()))
        return session.id

    async def ask(self, session: str, text: str, *, queued: bool = False) -> NewTurn:
        """A message whose turn runs."""
        self.clock.advance(0.001)
        part = (self.ids.new("prt"), {"type": "text", "text": text})
        turn = NewTurn(self.ids.new("msg"), session, self.ids.new("msg"), (part,), "f", queued=queued)
        await self.write(lambda connection: rows.insert_turn(connection, turn, self.clock.now_ms()))
        return turn

    async def reply(self, turn: NewTurn, *texts: str, ended: bool = True) -> None:
        """The answer to it, one text a step."""
        self.clock.advance(0.001)
        now = self.clock.now_ms()
        parts: list[dict[str, Any]] = []
        for text in texts:
            parts += [{"type": "step-start"}, {"type": "reasoning", "text": "hm"}, {"type": "text", "text": text}]

        def unit(connection: sqlite3.Connection) -> None:
            connection.execute("DELETE FROM chat_parts WHERE message_id = ?", (turn.reply_id,))
            rows.upsert_message(connection, MessageRow(turn.reply_id, turn.session_id, "assistant", {}, now, now))
            for index, part in enumerate(parts):
                row = PartRow(self.ids.new("prt"), turn.reply_id, turn.session_id, index, part, now)
                rows.upsert_part(connection, row)
            if ended:
                rows.end_turn(connection, turn.message_id, {"status": "complete"}, now)

        await self.write(unit)

    async def talk(self, session: str, asked: str, answered: str) -> NewTurn:
        turn = await self.ask(session, asked)
        await self.reply(turn, answered)
        return turn

    async def rewind(self, turn: NewTurn) -> None:
        await self.write(lambda c: branches.rewind(c, turn.session_id, turn.message_id, self.clock.now_ms()))

    async def fork(self, session: str, *, ephemeral: bool = False) -> str:
        branch = Branch(session, None, None, {}, ephemeral)
        fork = await self.database.read(
            lambda connection: plan_fork(connection, branch, self.ids.new, self.clock.now_ms())
        )
        await self.write(lambda connection: write_at_once(connection, fork))
        return fork.session_id

    async def compact(self, session: str, tail: NewTurn | None) -> None:
        self.clock.advance(0.001)
        now = self.clock.now_ms()
        marker = Marker("a summary of it all", 5, True, tail.message_id if tail else None)
        row = MessageRow(self.ids.new("msg"), session, "assistant", {}, now, now)
        await self.write(lambda connection: markers.insert(connection, row, self.ids.new("prt"), marker))

    # -- files

    def file(self, path: str, text: str | bytes) -> Path:
        """A file of the workspace; the time for another look at it has come."""
        target = self.home.workspace / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(text if isinstance(text, bytes) else text.encode())
        self.look_again()
        return target

    def look_again(self) -> None:
        self.clock.advance(60)


@asynccontextmanager
async def world(folder: Path, clock: ManualClock | None = None, **more: Any) -> AsyncGenerator[World]:
    clock, home = clock or ManualClock(), Home(folder / "data")
    home.prepare()
    database = Database(home.database, MIGRATIONS)
    database.open()
    memory = MemoryService(database, home, clock, Redactor(["sesame-open"]), **more)
    memory.start()
    try:
        yield World(database, home, clock, memory)
    finally:
        await memory.close()
        database.close()
