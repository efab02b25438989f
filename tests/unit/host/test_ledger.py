"""The ledger: rows reach the database, whatever the database does, and none is lost in silence."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import TypeVar

import httpx
import pytest
from fastapi import FastAPI
from sqlalchemy import Connection, text

from agent_common.clock import SystemClock
from agent_common.protocol import Usage
from agent_host import health
from agent_host.access import Teams
from agent_host.budgets import Budgets, CallOrigin
from agent_host.database import HostDatabase, open_database
from agent_host.errors import Unavailable
from agent_host.proxy import ModelCallLedger
from agent_host.proxy.ledger.ledger import CallRecord, CallStatus
from agent_host.proxy.ledger.report import LedgerReport, UsageQuery, read_report

T = TypeVar("T")


@pytest.fixture
def database(tmp_path: Path) -> Iterator[HostDatabase]:
    with closing(open_database(f"sqlite:///{tmp_path / 'mesh.db'}")) as database:
        yield database


@asynccontextmanager
async def opened(database: HostDatabase, limit: int = 100) -> AsyncGenerator[ModelCallLedger]:
    ledger = ModelCallLedger(
        database, Budgets(database, Teams(database, SystemClock()), SystemClock()), limit=limit, retry_seconds=0.01
    )
    ledger.start()
    try:
        yield ledger
    finally:
        await ledger.close()


def record(
    number: int = 1, agent: str = "a", model: str = "m", usage: Usage | None = None, status: CallStatus = "complete"
) -> CallRecord:
    return CallRecord(
        request_id=f"req_{number}",
        origin=CallOrigin(agent, "default"),
        operation="chat",
        model=model,
        provider="p",
        upstream_model="u",
        streamed=True,
        status=status,
        http_status=200,
        started_at=1_700_000_000_000 + number,
        duration_ms=12,
        usage=usage,
    )


async def report(database: HostDatabase, agent: str | None = None, limit: int = 50) -> LedgerReport:
    return await database.run(lambda connection: read_report(connection, UsageQuery(agent=agent), limit))


async def test_rows_are_written_and_summed(database: HostDatabase) -> None:
    async with opened(database) as ledger:
        ledger.record(
            record(1, usage=Usage(input=10, output=5, reasoning=1, cache_read=2, cache_write=3, cost_usd=0.5))
        )
        ledger.record(record(2, usage=Usage(input=1, cost_usd=0.25)))
        ledger.record(record(3, status="failed"))
        ledger.record(record(4, agent="b", model="n", usage=Usage(input=7)))
        await ledger.flush()
        found = await report(database)
    first, second = found.sums
    assert (first.agent_id, first.model, first.calls, first.not_complete) == ("a", "m", 3, 1)
    assert first.usage == Usage(input=11, output=5, reasoning=1, cache_read=2, cache_write=3, cost_usd=0.75)
    assert (first.without_usage, first.without_price) == (1, 0)
    assert (second.usage, second.without_price) == (Usage(input=7), 1)
    assert [call.request_id for call in found.recent] == ["req_4", "req_3", "req_2", "req_1"]
    assert found.recent[1].usage is None
    assert found.recent[3].started_at == 1_700_000_000_001


async def test_the_report_is_narrowed(database: HostDatabase) -> None:
    async with opened(database) as ledger:
        for number in range(5):
            ledger.record(record(number, agent="ab"[number % 2]))
        await ledger.flush()
    found = await report(database, "a", 2)
    assert [total.calls for total in found.sums] == [3]
    assert [call.request_id for call in found.recent] == ["req_4", "req_2"]
    assert (await report(database, "nobody")).sums == []


async def test_more_rows_than_one_commit_takes(database: HostDatabase) -> None:
    async with opened(database, limit=5_000) as ledger:
        for number in range(1_200):
            ledger.record(record(number))
        await ledger.flush(5)
        assert (await report(database)).sums[0].calls == 1_200


async def test_closing_writes_what_waits(database: HostDatabase) -> None:
    async with opened(database) as ledger:
        ledger.record(record())
    assert (await report(database)).sums[0].calls == 1


async def test_a_database_that_fails_loses_nothing_and_new_calls_are_refused(database: HostDatabase) -> None:
    def break_it(connection: Connection) -> None:
        connection.execute(text("ALTER TABLE model_calls RENAME TO hidden"))

    def mend_it(connection: Connection) -> None:
        connection.execute(text("ALTER TABLE hidden RENAME TO model_calls"))

    async with opened(database, limit=2) as ledger:
        await database.run(break_it)
        ledger.record(record(1))
        ledger.check_capacity()
        ledger.record(record(2))
        with pytest.raises(Unavailable) as caught:
            ledger.check_capacity()
        assert (caught.value.status, caught.value.code) == (503, "ledger_full")
        assert caught.value.headers == {"retry-after": "5"}
        async with asyncio.timeout(60):
            while ledger.failing is None:
                await asyncio.sleep(0.005)
        assert "no such table" in ledger.failing
        await ledger.flush(0.02)
        await database.run(mend_it)
        await ledger.flush(5)
        assert ledger.failing is None
        ledger.check_capacity()
    assert (await report(database)).sums[0].calls == 2


async def test_a_row_that_no_database_takes_is_dropped_and_the_others_are_written(
    database: HostDatabase, capsys: pytest.CaptureFixture[str]
) -> None:
    async with opened(database) as ledger:
        ledger.record(record(1))
        ledger.record(record(2, usage=Usage(input=10**20)))
        ledger.record(record(3))
        await ledger.flush(5)
        assert ledger.failing is None
        ledger.record(record(4))
        await ledger.flush(5)
    assert [call.request_id for call in (await report(database)).recent] == ["req_4", "req_3", "req_1"]
    dropped = [line for line in capsys.readouterr().out.splitlines() if "ledger_row_dropped" in line]
    assert len(dropped) == 1
    assert "req_2" in dropped[0]


async def test_no_failure_of_the_database_ends_the_writer(database: HostDatabase) -> None:
    class Odd(HostDatabase):
        """Fails in a way that nobody thought of, and without a word."""

        failures = 2

        async def run(self, work: Callable[[Connection], T]) -> T:
            if self.failures:
                self.failures -= 1
                raise RuntimeError
            return await super().run(work)

    async with opened(Odd(database._engine)) as ledger:
        ledger.record(record())
        async with asyncio.timeout(60):
            while ledger.failing is None:
                await asyncio.sleep(0.001)
        assert ledger.failing == "RuntimeError"
        await ledger.flush(5)
        assert ledger.failing is None
    assert (await report(database)).sums[0].calls == 1


async def test_a_writer_that_has_ended_shows_in_readiness(database: HostDatabase) -> None:
    app = FastAPI()
    app.include_router(health.router)
    async with (
        opened(database) as ledger,
        httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://host") as client,
    ):
        app.state.ledger = ledger
        assert (await client.get("/readyz")).status_code == 200
        assert ledger._writer is not None
        ledger._writer.cancel()
        await asyncio.wait([ledger._writer])
        assert ledger.failing == "the ledger's writer has ended"
        reply = await client.get("/readyz")
        assert (reply.status_code, reply.json()["reasons"]) == (503, ["database_unavailable"])


async def test_closing_over_a_broken_database_ends_and_says_what_is_lost(
    database: HostDatabase, capsys: pytest.CaptureFixture[str]
) -> None:
    async with opened(database) as ledger:
        await database.run(lambda connection: connection.execute(text("DROP TABLE model_calls")))
        ledger.record(record())
    assert "ledger_rows_lost" in capsys.readouterr().out
