"""Sessions that are in the database before a server starts."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent_runtime.context import digest
from agent_runtime.runtime import MIGRATIONS
from agent_runtime.sessions import Ids, MessageRow, NewSession, NewTurn, rows
from agent_runtime.store import Database
from agent_runtime.workspace import Home
from agent_testing import ManualClock

from . import floor

_BEGAN = 1_700_000_000_000
_PRINCIPAL = "operator"  # whom a request without a user's name speaks for
_WORDS = "lorem ipsum dolor sit amet " * 18  # two of these are about one KiB


@dataclass(frozen=True, slots=True)
class Contents:
    """So many sessions, of which the long ones are older and have so many messages, the others one short turn."""

    sessions: int
    long: int
    messages: int

    @property
    def long_names(self) -> tuple[str, ...]:
        return tuple(f"long-{number}" for number in range(self.long))

    def all(self) -> Iterator[tuple[str, int, list[str]]]:
        """Name, time, and what is said, by the user first; two sessions each have the same time."""
        for number, name in enumerate(self.long_names):
            yield name, _BEGAN + number // 2, [f"{turn} {_WORDS}" for turn in range(self.messages)]
        for number in range(self.long, self.sessions):
            yield f"stored-{number}", _BEGAN + number // 2, ["Is all well here?", "All is well here."]


def fill_ours(data: Path, contents: Contents) -> None:
    """Writes them through the real schema, with the very statements that the runtime uses."""
    home = Home(data)
    home.prepare()
    asyncio.run(_fill(Database(home.database, MIGRATIONS), str(home.workspace), contents))


async def _fill(database: Database, workspace: str, contents: Contents) -> None:
    database.open()
    try:
        await database.write(lambda connection: _write(connection, workspace, contents), durable=True)
    finally:
        database.close()


def _write(connection: sqlite3.Connection, workspace: str, contents: Contents) -> None:
    ids = Ids(ManualClock(_BEGAN))
    for name, at, said in contents.all():
        session_id, prompt = ids.new("ses"), floor.SYSTEM
        session = NewSession(
            session_id, _PRINCIPAL, "default", workspace, "default", prompt, digest(prompt), (), aliases=(name,)
        )
        rows.insert_session(connection, session, at)
        for user, assistant in zip(said[::2], said[1::2], strict=True):
            write_turn(connection, ids, session_id, (user, assistant), at)


def write_turn(connection: sqlite3.Connection, ids: Ids, session_id: str, said: tuple[str, str], at: int) -> str:
    """A turn that has ended; the id of its user message."""
    asked, reply = ids.new("msg"), ids.new("msg")
    outcome = {"status": "complete", "finish_reason": "stop"}
    user: dict[str, Any] = {"type": "text", "text": said[0]}
    rows.insert_turn(connection, NewTurn(asked, session_id, reply, ((ids.new("prt"), user),), "", queued=False), at)
    metadata = {"outcome": outcome, "schema_version": 1}
    rows.upsert_message(connection, MessageRow(reply, session_id, "assistant", metadata, at, at))
    answer: tuple[dict[str, Any], ...] = ({"type": "step-start"}, {"type": "text", "text": said[1], "state": "done"})
    for index, data in enumerate(answer):
        rows.upsert_part(connection, rows.PartRow(ids.new("prt"), reply, session_id, index, data, at))
    rows.end_turn(connection, asked, outcome, at)
    return asked


def fill_floor(data: Path, contents: Contents) -> None:
    """The same for the floor, which lists what stands in its rows as it is."""
    with closing(floor.opened(data)) as connection:
        connection.execute("BEGIN")
        for name, at, said in contents.all():
            body = {
                "id": name,
                "title": None,
                "agent": "default",
                "model": "default",
                "created_at": at,
                "updated_at": at,
            }
            connection.execute("INSERT INTO listed VALUES (?, ?, ?)", (at, name, json.dumps(body)))
            for user, assistant in zip(said[::2], said[1::2], strict=True):
                turn = [{"role": "user", "content": user}, {"role": "assistant", "content": assistant}]
                connection.execute("INSERT INTO turns VALUES (?, ?)", (name, json.dumps(turn)))
        connection.execute("COMMIT")
