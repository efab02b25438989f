"""When rows are written: with the next commit that a caller waits for, and soon without one; none is lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from sqlalchemy import Connection, insert

from agent_common.protocol.work import Principal, WorkRequest, WorkResult, to_rfc3339
from agent_host.database import HostDatabase, open_database, work, work_audit
from agent_host.errors import Unavailable
from agent_host.listener.ledger.ledger_writer import GATHER_SECONDS, LedgerWriter
from agent_host.listener.ledger.listing import WorkQuery
from agent_host.listener.ledger.sql import AUDIT, Values
from agent_host.listener.ledger.work import OpenWork

from .conftest import Room

MANY = 650


def trail_row(number: int) -> Values:
    facts = {"at": number, "epoch": 0, "connection": 0, "direction": "host", "type": "test", "bytes": 0}
    return tuple(facts.get(name) for name in AUDIT)


def fresh(name: str) -> OpenWork:
    request = WorkRequest(
        request_id=name,
        principal=Principal(name="ann", kind="user", verified=True),
        content="x",
        constraints_version=0,
        submitted_at=to_rfc3339(0),
        audit_ref=name,
    )
    return OpenWork(request, "a", "f" * 64, False, 0, 1)


@pytest.fixture
async def writer(tmp_path: Path) -> AsyncIterator[LedgerWriter]:
    database = open_database(f"sqlite:///{tmp_path / 'mesh.db'}")
    writer = LedgerWriter(database)
    yield writer
    await writer.close()
    database.close()


async def written(writer: LedgerWriter) -> list[int]:
    """The numbers of the trail's rows on the disk, in its order."""
    return await writer.read(
        lambda connection: list(connection.exec_driver_sql("SELECT at FROM work_audit ORDER BY id").scalars())
    )


async def test_rows_without_a_waiter_go_along_with_the_next_commit(writer: LedgerWriter) -> None:
    await writer.admit(fresh("first"))
    for number in range(MANY):
        writer.append_audit(trail_row(number))
    await writer.admit(fresh("next"))
    assert await written(writer) == list(range(MANY))
    assert writer.commits == 2


async def test_rows_without_a_waiter_are_written_soon_whole_and_in_order(writer: LedgerWriter) -> None:
    work = fresh("first")
    await writer.admit(work)
    for number in range(MANY):
        writer.append_audit(trail_row(number))
    work.attempts = 7
    writer.save_later(work)
    writer.mark_delivered("first", 1)
    async with asyncio.timeout(60):
        while len(await written(writer)) < MANY:
            await asyncio.sleep(GATHER_SECONDS / 10)
    assert await written(writer) == list(range(MANY))
    query = "SELECT attempts, delivered_at FROM work"
    assert await writer.read(lambda connection: connection.exec_driver_sql(query).all()) == [(7, 1)]


async def test_rows_of_the_same_moment_share_a_commit(writer: LedgerWriter) -> None:
    assert await asyncio.gather(*(writer.admit(fresh(f"r{number}")) for number in range(MANY))) == [None] * MANY
    assert writer.commits == 1


async def test_a_flush_returns_once_all_rows_are_written(writer: LedgerWriter) -> None:
    await writer.admit(fresh("first"))
    for number in range(MANY):
        writer.append_audit(trail_row(number))
    await writer.flush()
    assert len(await written(writer)) == MANY


async def test_closing_writes_all_rows_that_wait(tmp_path: Path) -> None:
    database: HostDatabase = open_database(f"sqlite:///{tmp_path / 'mesh.db'}")
    writer = LedgerWriter(database)
    await writer.admit(fresh("first"))
    admitted = writer.admit(fresh("next"))
    for number in range(MANY):
        writer.append_audit(trail_row(number))
    await writer.close()
    assert await admitted is None
    assert len(await written(writer)) == MANY
    database.close()


async def test_closing_writes_rows_that_come_meanwhile(tmp_path: Path) -> None:
    """Each commit that ends on the way brings more, as ends of work do."""
    database = open_database(f"sqlite:///{tmp_path / 'mesh.db'}")
    writer = LedgerWriter(database)
    work, rows, left = fresh("first"), iter(range(100_000)), [1, 2, 3, 4]
    await writer.admit(work)

    def more() -> None:
        for _ in range(MANY):
            writer.append_audit(trail_row(next(rows)))
        if left:
            left.pop()
            writer.save(work, more)

    writer.save(work, more)
    for _ in range(3):
        await asyncio.sleep(0)  # the first commit is under way
    await writer.close()
    assert await written(writer) == list(range(next(rows)))
    database.close()


async def test_a_row_that_is_refused_is_not_quoted_in_the_log(room: Room, capsys: pytest.CaptureFixture[str]) -> None:
    refuse = "CREATE TRIGGER no BEFORE INSERT ON channels BEGIN SELECT RAISE(ABORT, 'full'); END"
    await room.database.run(lambda connection: connection.exec_driver_sql(refuse))
    with pytest.raises(Unavailable):
        await room.enrol("b", result_secret="hush-hush")
    logged = "".join(capsys.readouterr())
    assert "full" in logged
    assert "hush-hush" not in logged


async def test_pages_of_work_and_of_the_trail_end_at_a_size_too(room: Room) -> None:
    large = "x" * (1 << 20)
    result = WorkResult(request_id="r", status="completed", content=large, completed_at=to_rfc3339(0), audit_ref="r")
    counts = dict.fromkeys(("attempts", "deliveries", "epoch", "expires_at", "updated_at"), 0)
    row = {"workspace": "a", "fingerprint": "x", "request": large, "pinned": False, "status": "delivered", **counts}
    row |= {"result": result.model_dump_json(), "finished_at": 1}
    frame = {
        "workspace": "big",
        "epoch": 0,
        "connection": 0,
        "direction": "in",
        "type": "x",
        "bytes": 1,
        "content": large,
    }

    def fill(connection: Connection) -> None:
        for number in range(12):
            connection.execute(insert(work).values({**row, "request_id": f"r{number:02}", "submitted_at": number}))
            connection.execute(insert(work_audit).values({**frame, "at": number}))

    await room.database.run(fill)
    listing = await room.listener.list_work(WorkQuery(limit=1000))
    assert [len(listing.records), listing.next] == [8, "r04"]
    rest = await room.listener.list_work(WorkQuery(limit=1000, after=listing.next))
    assert [record.request_id for record in (*listing.records, *rest.records)] == [
        f"r{at:02}" for at in range(11, -1, -1)
    ]
    assert rest.next is None
    rows, more = await room.listener.read_audit("big", None, 0, 1000)
    others, no_more = await room.listener.read_audit("big", None, rows[-1]["id"], 1000)
    assert [len(rows), more, len(others), no_more] == [8, True, 4, False]
    rest = await room.listener.list_work(WorkQuery(limit=4, after="r04"))
    assert [len(rest.records), rest.next] == [4, None], "a full page may be the last one"
    assert await room.listener.read_audit("big", None, rows[-1]["id"], 4) == (others, False)
