"""A session on a real database."""

from __future__ import annotations

import json
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from agent_common.protocol import chunks as c
from agent_runtime.sessions import MIGRATIONS, Ids, MessageRow, NewSession, NewTurn, Recorder, history, rows
from agent_runtime.store import Database
from agent_testing import ManualClock

SESSION = NewSession("ses_1", "operator", "default", "/ws", "m", "a prompt", "digest", ("read", "bash"), ("main",))
TURN = NewTurn("msg_1", "ses_1", "msg_2", (("prt_0", {"type": "text", "text": "hello"}),), "f", queued=False)


@contextmanager
def opened(path: Path) -> Generator[Database]:
    database = Database(path / "agent.db", MIGRATIONS)
    database.open()
    try:
        yield database
    finally:
        database.close()


async def begin(database: Database, turn: NewTurn = TURN, now: int = 1000) -> None:
    """Stores the session and one admitted turn."""

    def unit(connection: Any) -> None:
        rows.insert_session(connection, SESSION, now)
        rows.insert_turn(connection, turn, now)

    await database.write(unit, durable=True)


def recorder(database: Database, clock: ManualClock | None = None) -> Recorder:
    clock = clock or ManualClock()
    return Recorder(database, Ids(clock), clock, MessageRow("msg_2", "ses_1", "assistant", {}, 2000, 2000))


async def parts(database: Database) -> list[dict[str, Any]]:
    """The reply's parts as they are on disk."""
    found = await database.read(lambda connection: history.message(connection, "msg_2"))
    return found.parts if found else []


async def raw_parts(database: Database) -> list[Any]:
    return await database.read(
        lambda connection: connection.execute(
            "SELECT * FROM chat_parts WHERE message_id = 'msg_2' ORDER BY \"index\""
        ).fetchall()
    )


def text(chunk_id: str, *pieces: str, end: bool = True) -> list[c.Chunk]:
    said: list[c.Chunk] = [c.TextStart(id=chunk_id), *(c.TextDelta(id=chunk_id, delta=piece) for piece in pieces)]
    return [*said, c.TextEnd(id=chunk_id)] if end else said


def of_json(row: Any) -> dict[str, Any]:
    """The part in a row, which must be whole, valid JSON whenever one looks."""
    found = json.loads(row["data_json"])
    assert found["type"] == row["type"]
    return found
