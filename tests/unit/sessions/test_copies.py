"""A session that is copied in steps: others write in between, and a part of it is never seen."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agent_runtime.runtime import MIGRATIONS
from agent_runtime.sessions import Branch, Fork, history, plan_fork, retention, write_copy
from agent_runtime.store import Database
from agent_testing import ManualClock
from tests.unit.sessions.message_log import USAGE, Log

NOW = ManualClock().now_ms()
TURNS = 6


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    database = Database(tmp_path / "agent.db", MIGRATIONS)
    database.open()
    yield database
    database.close()


async def planned(database: Database) -> Fork:
    """The fork of a session with some turns."""

    def unit(connection: sqlite3.Connection) -> Fork:
        log = Log(connection)
        session = log.begin()
        for _ in range(TURNS):
            log.send(session)
        return plan_fork(connection, Branch(session, None, None, {}, ephemeral=False), log.ids.new, NOW)

    return await database.write(unit)


def texts(connection: sqlite3.Connection, session_id: str) -> list[str]:
    return [part["text"] for message in history.messages(connection, session_id) for part in message.parts]


async def test_others_write_while_a_long_session_is_copied(database: Database) -> None:
    fork = await planned(database)
    seen = set[tuple[bool, int]]()

    def look(connection: sqlite3.Connection) -> None:
        shown = history.session(connection, fork.session_id) is not None
        seen.add((shown, len(texts(connection, fork.session_id))))

    writing = asyncio.create_task(write_copy(database, fork, NOW, step_seconds=0))
    while not writing.done():
        await database.write(look)
    await writing
    assert len(seen) > 2
    assert {number for shown, number in seen if shown} <= {2 * TURNS}, "it is shown when it is whole"

    def check(connection: sqlite3.Connection) -> None:
        assert history.session(connection, fork.session_id) is not None
        assert texts(connection, fork.session_id) == texts(connection, fork.branch.parent_id)
        row = connection.execute("SELECT total_tokens FROM chat_sessions WHERE id = ?", (fork.session_id,)).fetchone()
        assert row[0] == TURNS * USAGE.total

    await database.read(check)


class Failing:
    """A copy whose second step fails."""

    def __init__(self, fork: Fork) -> None:
        self.fork, self.session_id = fork, fork.session_id

    def begin(self, connection: sqlite3.Connection) -> None:
        self.fork.begin(connection)

    def step(self, connection: sqlite3.Connection, position: int, out_of_time: Callable[[], bool]) -> int | None:
        if position:
            raise OSError("the file is gone")
        return self.fork.step(connection, position, out_of_time)


async def test_of_a_copy_that_fails_nothing_is_seen_and_all_is_deleted(database: Database) -> None:
    fork = await planned(database)
    with pytest.raises(OSError, match="gone"):
        await write_copy(database, Failing(fork), NOW, step_seconds=0)
    await database.write(lambda _: None)  # what gives it up was submitted before
    assert await database.read(lambda connection: history.session(connection, fork.session_id)) is None
    assert await database.read(retention.marked_sessions) == [fork.session_id]
