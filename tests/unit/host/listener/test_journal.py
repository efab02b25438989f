"""What is written when: those who wait do not wait for what nobody waits for, and that is written all the same."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from agent_common.protocol.work import Principal, WorkRequest, to_rfc3339
from agent_host.database import HostDatabase, open_database
from agent_host.listener.ledger.commit_batch import MOST_ALONG, WaitingWrite
from agent_host.listener.ledger.ledger_writer import GATHER_SECONDS, LedgerWriter
from agent_host.listener.ledger.sql import AUDIT, Values
from agent_host.listener.ledger.work import OpenWork

MUCH = MOST_ALONG + 1
MANY = 10 * MUCH


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
async def journal(tmp_path: Path) -> AsyncIterator[LedgerWriter]:
    database = open_database(f"sqlite:///{tmp_path / 'mesh.db'}")
    journal = LedgerWriter(database)
    yield journal
    await journal.close()
    database.close()


async def written(journal: LedgerWriter) -> list[int]:
    """The numbers of the trail's rows on the disk, in its order."""
    return await journal.read(
        lambda connection: list(connection.exec_driver_sql("SELECT at FROM work_audit ORDER BY id").scalars())
    )


async def busy(journal: LedgerWriter) -> None:
    """Somebody is served: from here on a long trail waits for a lull."""
    await journal.admit(fresh("first"))


async def test_a_short_trail_goes_along(journal: LedgerWriter) -> None:
    await busy(journal)
    for number in range(MOST_ALONG):
        journal.append_audit(trail_row(number))
    await journal.admit(fresh("next"))
    assert await written(journal) == list(range(MOST_ALONG))


async def test_a_long_trail_waits_for_a_lull_and_then_is_written_whole_and_in_order(journal: LedgerWriter) -> None:
    await busy(journal)
    for number in range(MANY):
        journal.append_audit(trail_row(number))
    await journal.admit(fresh("next"))
    for number in range(MANY, MANY + 3):
        journal.append_audit(trail_row(number))
    async with asyncio.timeout(10):
        while len(await written(journal)) < MANY + 3:
            await asyncio.sleep(GATHER_SECONDS / 10)
    assert await written(journal) == list(range(MANY + 3))


async def test_a_long_trail_does_not_wait_for_ever_for_a_lull(journal: LedgerWriter) -> None:
    """Nor does what callers have read, though others are served all the time."""
    work = fresh("first")
    await journal.admit(work)
    await asyncio.gather(*(journal.admit(fresh(f"r{number}")) for number in range(MUCH)))

    async def others() -> None:
        while True:
            saved = asyncio.Event()
            journal.save(work, saved.set)
            await saved.wait()

    served, before = asyncio.create_task(others()), journal.commits
    await asyncio.sleep(0)
    for number in range(MUCH):
        journal.mark_delivered(f"r{number}", 1)
        journal.append_audit(trail_row(number))
    query = "SELECT count(*) FROM work WHERE delivered_at IS NOT NULL"
    try:
        async with asyncio.timeout(10):
            while len(await written(journal)) < MUCH:
                assert journal.commits < before + 500, "nobody was so patient"
    finally:
        served.cancel()
    assert await journal.read(lambda connection: connection.exec_driver_sql(query).scalar_one()) == MUCH


async def test_who_waits_for_everything_gets_it(journal: LedgerWriter) -> None:
    await busy(journal)
    for number in range(MANY):
        journal.append_audit(trail_row(number))
    await journal.flush()
    assert len(await written(journal)) == MANY


async def test_a_journal_that_is_closed_has_written_everything(tmp_path: Path) -> None:
    database: HostDatabase = open_database(f"sqlite:///{tmp_path / 'mesh.db'}")
    journal = LedgerWriter(database)
    await busy(journal)
    admitted = journal.admit(fresh("next"))
    for number in range(MANY):
        journal.append_audit(trail_row(number))
    await journal.close()
    assert await admitted is None
    assert len(await written(journal)) == MANY
    database.close()


def test_what_nobody_waits_for_is_left_behind_where_it_is_much_and_somebody_waits() -> None:
    def waiting(rows: int = MUCH, **more: Any) -> WaitingWrite:
        return WaitingWrite(audit=[trail_row(number) for number in range(rows)], **more)

    urgent = waiting(callbacks=[lambda: None], delivered={"r": 1})
    behind = urgent.split_unawaited()
    assert (len(urgent.audit), urgent.delivered, urgent.urgent) == (0, {}, True)
    assert (len(behind.audit), behind.delivered, behind.urgent) == (MUCH, {"r": 1}, False)
    for one in (
        behind,
        waiting(MOST_ALONG, callbacks=[lambda: None]),
        waiting(callbacks=[lambda: None], flush_all=True),
    ):
        assert not one.split_unawaited().has_pending


async def test_a_journal_that_is_closed_has_written_what_came_meanwhile(tmp_path: Path) -> None:
    """Each commit that ends on the way brings more, as ends of work do."""
    database = open_database(f"sqlite:///{tmp_path / 'mesh.db'}")
    journal = LedgerWriter(database)
    work, rows, left = fresh("first"), iter(range(100_000)), [1, 2, 3, 4]
    await journal.admit(work)

    def more() -> None:
        for _ in range(MANY):
            journal.append_audit(trail_row(next(rows)))
        if left:
            left.pop()
            journal.save(work, more)

    journal.save(work, more)
    for _ in range(3):
        await asyncio.sleep(0)  # the first commit is under way
    await journal.close()
    assert await written(journal) == list(range(next(rows)))
    database.close()
