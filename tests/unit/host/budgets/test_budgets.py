"""Budgets over calls that begin and end at once, and over lives of the host."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager, closing
from itertools import count
from pathlib import Path

import pytest
from sqlalchemy import Connection, insert, select, text
from sqlalchemy.exc import SQLAlchemyError

from agent_common.clock import SystemClock
from agent_common.protocol import Usage
from agent_host.access import Teams
from agent_host.budgets import BudgetExhausted, Budgets, CallOrigin, HeldReserve, Reserve
from agent_host.budgets.limits import BudgetLimits
from agent_host.budgets.periods import DAY_MS
from agent_host.database import HostDatabase, call_reserves, model_calls, open_database, workspaces
from agent_host.errors import InvalidCall, NotFound, TooMany
from agent_host.proxy import ModelCallLedger
from agent_host.proxy.ledger.ledger import CallRecord


class Noon(SystemClock):
    """A day that does not end while a test runs."""

    def __init__(self, ahead_ms: int = 0) -> None:
        self.ahead_ms = ahead_ms

    def now_ms(self) -> int:
        return 1_800_014_400_000 + self.ahead_ms


CLOCK = Noon()
WRITER = CallOrigin("writer", "red", session="ses_1", user="ann")
HELPER = CallOrigin("writer", "red", session="ses_2", caller_session="ses_1", subagent="scout", user="ann")
NUMBERS = count(1)


@pytest.fixture
def database(tmp_path: Path) -> Iterator[HostDatabase]:
    with closing(open_database(f"sqlite:///{tmp_path / 'mesh.db'}")) as database:
        yield database


class Life:
    """One life of the budgets with the ledger that writes what they count."""

    def __init__(self, budgets: Budgets, ledger: ModelCallLedger) -> None:
        self.budgets, self.ledger = budgets, ledger

    async def begin(
        self, origin: CallOrigin = WRITER, tokens: int = 10, cost: float | None = 0.1
    ) -> HeldReserve | None:
        return await self.budgets.reserve(reserve(origin, tokens, cost))

    def end(self, held: HeldReserve | None, origin: CallOrigin = WRITER, tokens: int = 10, cost: float = 0.1) -> None:
        self.ledger.record(record(origin, tokens, cost, held), held)

    def used(self, scope: str) -> int:
        return self.budgets.get(scope).today.tokens


@asynccontextmanager
async def life(database: HostDatabase, wait_seconds: float = 60.0, clock: Noon = CLOCK) -> AsyncGenerator[Life]:
    budgets = Budgets(database, Teams(database, clock), clock, wait_seconds)
    await budgets.open()
    ledger = ModelCallLedger(database, budgets, retry_seconds=0.01)
    ledger.start()
    try:
        yield Life(budgets, ledger)
    finally:
        await ledger.close()
        await budgets.close()


def reserve(origin: CallOrigin, tokens: int, cost: float | None) -> Reserve:
    return Reserve(origin, f"req_{next(NUMBERS)}", "chat", "m", "p", "u", True, CLOCK.now_ms(), tokens, 0, cost)


def record(origin: CallOrigin, tokens: int, cost: float, held: HeldReserve | None) -> CallRecord:
    usage = Usage(input=tokens - 1, output=1, cost_usd=cost)
    names = ("chat", "m", "p", "u", True, "complete", 200)
    return CallRecord(
        f"req_{next(NUMBERS)}", origin, *names, CLOCK.now_ms(), 5, usage, reserve_id=held.id if held else None
    )


async def test_calls_that_no_budget_concerns_reserve_nothing(database: HostDatabase) -> None:
    async with life(database) as host:
        await host.budgets.put("team:blue", BudgetLimits(daily_tokens=1))
        assert await host.begin() is None
        with pytest.raises(NotFound):
            host.budgets.get("team:red")


@pytest.mark.parametrize("scope", ["agent:writer", "team:red", "agent:writer/scout"])
async def test_a_subagent_counts_for_itself_its_caller_and_its_team(database: HostDatabase, scope: str) -> None:
    async with life(database) as host:
        await host.budgets.put(scope, BudgetLimits(daily_tokens=10))
        host.end(await host.begin(HELPER), HELPER)
        with pytest.raises(BudgetExhausted, match=scope):
            await host.begin(HELPER)
        if scope.endswith("scout"):
            assert await host.begin(WRITER) is None


async def test_a_new_budget_counts_what_was_used_before(database: HostDatabase) -> None:
    async with life(database) as host:
        host.end(None)
        host.end(None, HELPER)
        await host.ledger.flush()
        host.end(None)  # not written yet
        for scope, used in {"team:red": 30, "agent:writer": 30, "agent:writer/scout": 10, "team:blue": 0}.items():
            assert await host.budgets.put(scope, BudgetLimits(daily_tokens=100)) == (host.budgets.get(scope), True)
            assert host.used(scope) == used
        host.end(None)
    async with life(database) as host:
        assert {one.scope: one.today.tokens for one in host.budgets.list()} == {
            "agent:writer": 40,
            "agent:writer/scout": 10,
            "team:blue": 0,
            "team:red": 40,
        }


async def test_limits_change_and_go(database: HostDatabase) -> None:
    async with life(database) as host:
        await host.budgets.put("team:red", BudgetLimits(daily_tokens=10))
        host.end(await host.begin())
        state, is_new = await host.budgets.put("team:red", BudgetLimits(daily_tokens=11, monthly_usd=5))
        assert (is_new, state.limits.monthly_usd, state.today.tokens) == (False, 5, 10)
        host.end(await host.begin())
        await host.budgets.delete("team:red")
        assert await host.begin() is None
        with pytest.raises(NotFound):
            await host.budgets.delete("team:red")
    async with life(database) as host:
        assert host.budgets.list() == []


async def test_a_model_without_a_price_is_refused_where_dollars_are_limited(database: HostDatabase) -> None:
    async with life(database) as host:
        await host.budgets.put("team:red", BudgetLimits(daily_tokens=100))
        assert await host.begin(cost=None) is not None
        await host.budgets.put("team:red", BudgetLimits(daily_tokens=100, monthly_usd=1))
        with pytest.raises(InvalidCall, match=r"team:red .*\(monthly_usd\).* no known price") as caught:
            await host.begin(cost=None)
        assert caught.value.code == "unpriced_model"


async def test_sixteen_at_once_exceed_the_budget_by_at_most_one_call(database: HostDatabase) -> None:
    limit, most = 400, 60
    async with life(database) as host:
        await host.budgets.put("team:red", BudgetLimits(daily_tokens=limit))

        async def client(number: int) -> None:
            dice = random.Random(number)
            while True:
                try:
                    held = await host.begin(HELPER if number % 2 else WRITER, most)
                except BudgetExhausted:
                    return
                await asyncio.sleep(dice.random() / 200)
                host.end(held, HELPER if number % 2 else WRITER, dice.randint(1, most))

        await asyncio.wait_for(asyncio.gather(*(client(number) for number in range(16))), 60)
        assert limit <= host.used("team:red") < limit + most
        assert host.budgets.get("team:red").reserved.tokens == 0
        used = host.used("team:red")
    async with life(database) as host:
        assert host.used("team:red") == used
        assert await database.run(lambda connection: connection.execute(select(call_reserves)).all()) == []


async def test_a_call_waits_for_those_that_may_use_the_budget_up(database: HostDatabase) -> None:
    async with life(database, wait_seconds=0.05) as host:
        await host.budgets.put("team:red", BudgetLimits(daily_tokens=100))
        first = await host.begin(tokens=100)
        with pytest.raises(TooMany, match=r"calls under way may use up the budget of team:red") as caught:
            await host.begin()
        assert (caught.value.code, caught.value.headers["retry-after"]) == ("budget_reserved", "5")
        host.end(first, tokens=1)
    async with life(database) as host:
        first = await host.begin(tokens=100)
        waiting = asyncio.create_task(host.begin())
        await asyncio.sleep(0)
        host.end(first)
        assert await asyncio.wait_for(waiting, 60) is not None


async def test_more_budget_lets_a_waiting_call_begin(database: HostDatabase) -> None:
    async with life(database) as host:
        await host.budgets.put("team:red", BudgetLimits(daily_tokens=100))
        await host.begin(tokens=100)
        waiting = asyncio.create_task(host.begin())
        await asyncio.sleep(0)
        await host.budgets.put("team:red", BudgetLimits(daily_tokens=200))
        assert await asyncio.wait_for(waiting, 60) is not None


async def test_a_call_that_a_killed_host_left_is_charged_with_what_it_could_use(database: HostDatabase) -> None:
    async with life(database) as host:
        await host.budgets.put("agent:writer", BudgetLimits(daily_tokens=1000))
        await host.begin(HELPER, tokens=70, cost=0.5)
    for _ in range(2):  # the second start finds nothing more to charge
        async with life(database) as host:
            state = host.budgets.get("agent:writer")
            assert (state.today.tokens, state.today.usd, state.reserved.tokens) == (70, 0.5, 0)
    (row,) = await database.run(lambda connection: connection.execute(select(model_calls)).mappings().all())
    assert (row["status"], row["input"], row["cost_usd"], row["estimated"]) == ("interrupted", 70, 0.5, True)
    told = ("session", "caller_session", "subagent", "principal")
    assert [row[name] for name in told] == ["ses_2", "ses_1", "scout", "ann"]


async def test_a_call_whose_client_left_before_it_was_made_costs_nothing(database: HostDatabase) -> None:
    async with life(database) as host:
        await host.budgets.put("team:red", BudgetLimits(daily_tokens=100))
        begun = asyncio.create_task(host.begin(tokens=50))
        await asyncio.sleep(0)
        begun.cancel()
        with pytest.raises(asyncio.CancelledError):
            await begun
        assert host.budgets.get("team:red").reserved.tokens == 0
    async with life(database) as host:
        assert host.used("team:red") == 0


async def test_without_a_database_no_call_begins(database: HostDatabase) -> None:
    def break_it(connection: Connection) -> None:
        connection.execute(text("DROP TABLE call_reserves"))

    async with life(database) as host:
        await host.budgets.put("team:red", BudgetLimits(daily_tokens=100))
        await database.run(break_it)
        with pytest.raises(SQLAlchemyError):
            await host.begin()
        assert host.budgets.get("team:red").reserved.tokens == 0


async def test_an_agent_is_of_the_team_of_its_workspace(database: HostDatabase) -> None:
    row = {"driver": "process", "state": "stopped", "url": "", "token": "", "created_at": 1}
    await database.run(lambda one: one.execute(insert(workspaces).values(id="writer", team="red", **row)))
    async with life(database) as host:
        told = {"x-agent-session": "ses%5F1", "x-agent-user": "J%C3%B6rg", "x-agent-subagent": "scout"}
        origin = await host.budgets.origin("writer", told)
        assert origin == CallOrigin("writer", "red", "ses_1", None, "scout", "Jörg")
        assert (await host.budgets.origin("alone", {})).team == "default"
        for wrong in ("x" * 101, "%00", "a%0Ab"):
            with pytest.raises(InvalidCall, match="x-agent-session: must be at most 100 printable characters"):
                await host.budgets.origin("writer", {"x-agent-session": wrong})


async def test_a_host_that_starts_with_a_clock_ahead_knows_the_month_once_it_is_set_back(
    database: HostDatabase,
) -> None:
    async with life(database) as host:
        await host.budgets.put("team:red", BudgetLimits(monthly_tokens=10))
        host.end(await host.begin())
    clock = Noon(ahead_ms=40 * DAY_MS)
    async with life(database, clock=clock) as host:
        assert host.budgets.get("team:red").exhausted == []
        clock.ahead_ms = 0
        assert host.budgets.get("team:red").exhausted == ["monthly_tokens"]
