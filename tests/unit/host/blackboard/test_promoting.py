"""A result and what it promotes are one transaction, on SQLite and on PostgreSQL."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import aclosing, closing
from pathlib import Path

import pytest
from sqlalchemy import Connection, insert, select
from sqlalchemy.exc import OperationalError

from agent_common.protocol import Cause
from agent_host.blackboard import Blackboard
from agent_host.database import open_database, task_results, workspaces
from agent_host.listener import Promotions
from agent_host.listener.ledger.promotions import NewResult, record_promoting
from agent_host.listener.ledger.sql import RESULT
from tests.unit.host.postgresql import new_database, postgresql

from .boards import opened

WORKSPACE = {
    "id": "w",
    "driver": "external",
    "state": "running",
    "url": "",
    "token": "",
    "created_at": 1,
    "team": "red",
}


@pytest.fixture(scope="module")
def server() -> Generator[str]:
    with postgresql() as url:
        yield url


def result(task_id: str, **values: object) -> NewResult:
    row = ("w", task_id, "ann", 1, 2, "{}", False, *(None,) * 6)
    return NewResult(row, Promotions("w", task_id, "ses_1", values, "last_writer"))


def recorded(connection: Connection, board: Blackboard, *results: NewResult, broken: bool = False) -> None:
    def promote(connection: Connection, given: Promotions) -> str:
        cause = Cause(session=given.session_id, task=given.task_id)
        board.promote_in(connection, given.workspace, cause, given.values, given.rule)
        if broken:
            raise OperationalError("the disk is full", None, Exception("the disk is full"))
        return "[]"

    record_promoting(connection, results, RESULT, promote)


async def promote_and_resend(url: str) -> None:
    async with opened(url) as ann:
        red, board = ann.of("eve", "red"), ann.board
        with closing(open_database(url)) as database:
            await database.run(
                lambda connection: connection.execute(insert(workspaces).values({**WORKSPACE, "team": "red"}))
            )
            with pytest.raises(OperationalError):
                await database.run(lambda connection: recorded(connection, board, result("t1", a=1), broken=True))
            assert await red.keys() == [], "nothing without its result"
            for _ in range(3):
                await database.run(lambda connection: recorded(connection, board, result("t1", a=1), result("t2", b=2)))
            board.announce_promoted()
            rows = await database.run(lambda connection: connection.execute(select(task_results.c.task_id)).all())
            gone = result("t3", c=3)
            assert gone.promotions is not None
            await database.run(lambda connection: connection.execute(workspaces.delete()))
            await database.run(lambda connection: recorded(connection, board, gone))
        assert [row.task_id for row in rows] == ["t1", "t2"]
        assert (await red.get("a"), await red.get("b")) == ((1, 1), (2, 1))
        assert (await red.keys(), await ann.keys()) == (["a", "b"], []), "a workspace that is gone has no team"
        async with aclosing(red.changes(after=0)) as events:
            assert [(await anext(events))[2]["cause"] for _ in range(2)] == [
                {"session": "ses_1", "task": "t1"},
                {"session": "ses_1", "task": "t2"},
            ]


async def test_values_are_promoted_once_or_not_at_all(tmp_path: Path) -> None:
    await promote_and_resend(f"sqlite:///{tmp_path / 'mesh.db'}")


@pytest.mark.slow
async def test_the_same_on_postgresql(server: str) -> None:
    await promote_and_resend(new_database(server, "promoting"))
