"""What is written when: those who wait do not wait for what nobody waits for, and that is written all the same."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agent_host.database import Database, open_database
from agent_host.listener.journal import GATHER, Journal
from agent_host.listener.statements import AUDIT, Values
from agent_host.listener.waiting import MOST_ALONG, PIECE, Waiting
from agent_host.listener.work import Work
from agent_runtime.protocol.work import Principal, WorkRequest, stamp

MUCH = MOST_ALONG + 1


def trail_row(number: int) -> Values:
    facts = {"at": number, "epoch": 0, "connection": 0, "direction": "host", "type": "test", "bytes": 0}
    return tuple(facts.get(name) for name in AUDIT)


def fresh(name: str) -> Work:
    request = WorkRequest(
        request_id=name,
        principal=Principal(name="ann", kind="user", verified=True),
        content="x",
        constraints_version=0,
        submitted_at=stamp(0),
        audit_ref=name,
    )
    return Work(request, "a", "f" * 64, False, 0, 1)


@pytest.fixture
async def journal(tmp_path: Path) -> AsyncIterator[Journal]:
    database = open_database(f"sqlite:///{tmp_path / 'mesh.db'}")
    journal = Journal(database)
    yield journal
    await journal.close()
    database.close()


async def written(journal: Journal) -> list[int]:
    """The numbers of the trail's rows on the disk, in its order."""
    return await journal.read(
        lambda connection: list(connection.exec_driver_sql("SELECT at FROM work_audit ORDER BY id").scalars())
    )


async def busy(journal: Journal) -> None:
    """Somebody is served: from here on a long trail waits for a lull."""
    await journal.admit(fresh("first"))


async def test_a_short_trail_goes_along(journal: Journal) -> None:
    await busy(journal)
    for number in range(MOST_ALONG):
        journal.trail(trail_row(number))
    await journal.admit(fresh("next"))
    assert await written(journal) == list(range(MOST_ALONG))


async def test_a_long_trail_waits_for_a_lull_and_then_is_written_whole_and_in_order(journal: Journal) -> None:
    await busy(journal)
    for number in range(2 * PIECE + 7):
        journal.trail(trail_row(number))
    await journal.admit(fresh("next"))
    soon = await written(journal)
    for number in range(2 * PIECE + 7, 2 * PIECE + 20):
        journal.trail(trail_row(number))
    async with asyncio.timeout(10):
        while len(await written(journal)) < 2 * PIECE + 20:
            await asyncio.sleep(GATHER / 10)
    assert soon == list(range(len(soon))), "nothing was passed over"
    assert await written(journal) == list(range(2 * PIECE + 20))


async def test_who_waits_for_everything_gets_it(journal: Journal) -> None:
    await busy(journal)
    for number in range(3 * PIECE):
        journal.trail(trail_row(number))
    await journal.settle()
    assert len(await written(journal)) == 3 * PIECE


async def test_a_journal_that_is_closed_has_written_everything(tmp_path: Path) -> None:
    database: Database = open_database(f"sqlite:///{tmp_path / 'mesh.db'}")
    journal = Journal(database)
    await busy(journal)
    admitted = journal.admit(fresh("next"))
    for number in range(3 * PIECE):
        journal.trail(trail_row(number))
    await journal.close()
    assert await admitted is None
    assert len(await written(journal)) == 3 * PIECE
    database.close()


def test_what_nobody_waits_for_is_left_behind_only_while_there_is_patience() -> None:
    waiting = Waiting(trail=[trail_row(number) for number in range(MUCH)], delivered={"r": 1}, calls=[lambda: None])
    behind = waiting.split(patient=True)
    assert (len(waiting.trail), waiting.delivered) == (0, {})
    assert (len(behind.trail), behind.delivered) == (MUCH, {"r": 1})
    behind.calls = [lambda: None]
    assert behind.split(patient=False).trail == []
    assert (len(behind.trail), behind.delivered) == (MUCH, {"r": 1})


def test_nobody_is_held_up_by_more_than_a_piece() -> None:
    waiting = Waiting(trail=[trail_row(number) for number in range(3 * PIECE)], calls=[lambda: None])
    behind = waiting.split(patient=False)
    assert [row[0] for row in waiting.trail] == list(range(PIECE))
    assert [row[0] for row in behind.trail] == list(range(PIECE, 3 * PIECE))


async def test_a_journal_that_is_closed_has_written_what_came_meanwhile(tmp_path: Path) -> None:
    """Each commit that ends on the way brings more, as ends of work do."""
    database = open_database(f"sqlite:///{tmp_path / 'mesh.db'}")
    journal = Journal(database)
    work, rows, left = fresh("first"), iter(range(100_000)), [1, 2, 3, 4]
    await journal.admit(work)

    def more() -> None:
        for _ in range(PIECE + MUCH):
            journal.trail(trail_row(next(rows)))
        if left:
            left.pop()
            journal.save(work, more)

    journal.save(work, more)
    for _ in range(3):
        await asyncio.sleep(0)  # the first commit is under way
    await journal.close()
    assert await written(journal) == list(range(next(rows)))
    database.close()


async def test_what_callers_have_read_is_noted_though_others_are_served_all_the_time(journal: Journal) -> None:
    work = fresh("first")
    await journal.admit(work)
    admitted = [journal.admit(fresh(f"r{number}")) for number in range(MUCH)]
    await asyncio.gather(*admitted)
    for number in range(MUCH):
        journal.deliver(f"r{number}", 1)

    loop = asyncio.get_running_loop()
    end = loop.time() + 4 * GATHER
    while loop.time() < end:
        saved = asyncio.Event()
        journal.save(work, saved.set)
        await saved.wait()
    query = "SELECT count(*) FROM work WHERE delivered_at IS NOT NULL"
    assert await journal.read(lambda connection: connection.exec_driver_sql(query).scalar_one()) == MUCH


def test_a_trail_that_comes_fast_does_not_pile_up() -> None:
    waiting, came, most = Waiting(calls=[lambda: None]), 4 * PIECE, 0
    for _ in range(200):
        waiting.trail += [trail_row(0)] * came
        waiting.calls = [lambda: None]
        waiting = waiting.split(patient=False)
        most = max(most, len(waiting.trail))
    assert most < 8 * came
