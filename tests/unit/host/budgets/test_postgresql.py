"""Budgets and reports in PostgreSQL, as in SQLite."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest
from sqlalchemy import select

from agent_host.budgets import BudgetExhausted
from agent_host.budgets.limits import BudgetLimits
from agent_host.database import HostDatabase, call_reserves, open_database
from agent_host.proxy.ledger.report import DIMENSIONS, UsageQuery, read_report

from ..postgresql import new_database, postgresql
from .test_budgets import HELPER, WRITER, life

pytestmark = pytest.mark.slow


@pytest.fixture
def database() -> Iterator[HostDatabase]:
    with postgresql() as server, closing(open_database(new_database(server, "budgets"))) as database:
        yield database


async def test_charges_are_kept_and_summed(database: HostDatabase) -> None:
    async with life(database) as host:
        host.end(await host.begin(HELPER), HELPER, tokens=5)
        await host.ledger.flush()
        for scope in ("team:red", "agent:writer/scout"):
            await host.budgets.put(scope, BudgetLimits(daily_tokens=100, monthly_usd=10))
        for _ in range(3):
            host.end(await host.begin())
        host.end(await host.begin(HELPER), HELPER)
        await host.begin(tokens=60, cost=1.0)  # the host is killed during this one
    async with life(database) as host:
        assert (host.used("team:red"), host.used("agent:writer/scout")) == (5 + 30 + 10 + 60, 15)
        with pytest.raises(BudgetExhausted, match="105 of 100 tokens, daily_tokens"):
            await host.begin(WRITER)
    rows = await database.run(lambda connection: connection.execute(select(call_reserves)).all())
    assert rows == []
    report = await database.run(lambda connection: read_report(connection, UsageQuery(by=DIMENSIONS), 10))
    assert sum(one.calls for one in report.sums) == 6
    assert {one.day for one in report.sums} == {"2027-01-15"}
    by_day = await database.run(lambda connection: read_report(connection, UsageQuery(by=("day", "team")), 0))
    assert [(one.day, one.team, one.calls) for one in by_day.sums] == [("2027-01-15", "red", 6)]
