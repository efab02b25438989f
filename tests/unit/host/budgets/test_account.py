"""One budget: its periods, its marks, its room."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from agent_host.activity.view import Audience, View
from agent_host.budgets.account import Account
from agent_host.budgets.amount import Amount
from agent_host.budgets.errors import BudgetExhausted
from agent_host.budgets.limits import BudgetLimits
from agent_host.budgets.periods import DAY_MS


def ms(text: str) -> int:
    return round(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


NOON, NEXT_DAY, NEXT_MONTH = ms("2026-11-29T12:00"), ms("2026-11-30T00:00"), ms("2026-12-01T00:00")


def account(**limits: float) -> Account:
    return Account("team:red", BudgetLimits.model_validate(limits))


def test_a_budget_without_a_limit_is_none() -> None:
    with pytest.raises(ValueError, match="set at least one of daily_usd, monthly_usd, daily_tokens, monthly_tokens"):
        BudgetLimits()


def test_a_day_ends_and_its_month_goes_on() -> None:
    budget = account(daily_usd=1, monthly_tokens=25)
    budget.charge(Amount(1.0, 10), NOON, NOON)
    with pytest.raises(BudgetExhausted, match=r"1 of 1 US dollars, daily_usd; it begins anew at 2026-11-30T00:00Z"):
        budget.check(NOON)
    budget.check(NEXT_DAY)
    budget.charge(Amount(0.5, 15), NEXT_DAY, NEXT_DAY)
    with pytest.raises(BudgetExhausted, match=r"25 of 25 tokens, monthly_tokens; .* 2026-12-01T00:00Z") as caught:
        budget.check(NEXT_DAY)
    assert caught.value.extra == {"param": "monthly_tokens"}
    budget.check(NEXT_MONTH)
    state = budget.state(NEXT_DAY)
    assert (state.today.tokens, state.this_month.tokens, state.exhausted) == (15, 25, ["monthly_tokens"])


def test_a_call_counts_for_the_day_on_which_it_began() -> None:
    budget = account(daily_tokens=10)
    assert budget.charge(Amount(0, 10), NOON, NEXT_DAY) == []
    budget.check(NEXT_DAY)
    assert budget.state(NEXT_DAY).today.tokens == 0
    assert budget.state(NEXT_DAY).this_month.tokens == 10


def test_old_periods_are_forgotten() -> None:
    budget = account(daily_tokens=10)
    days = [NOON + day * DAY_MS for day in range(200)]
    for at in days:
        budget.charge(Amount(0, 1), at, at)
    assert len(budget.spent) == 100
    assert budget.state(days[-1]).today.tokens == 1


def test_a_clock_that_jumps_ahead_and_back_forgets_nothing() -> None:
    budget = account(monthly_usd=10)
    budget.charge(Amount(10.0, 1), NOON, NOON)
    ahead = NOON + 40 * DAY_MS
    budget.charge(Amount(1.0, 1), ahead, ahead)
    assert budget.state(NOON).exhausted == ["monthly_usd"]


def test_each_mark_is_told_once() -> None:
    budget = account(daily_tokens=100, daily_usd=1)
    told = [budget.charge(Amount(0.01, tokens), NOON, NOON) for tokens in (79, 1, 5, 15, 50)]
    assert [[(one.limit, one.percent, one.spent) for one in each] for each in told] == [
        [],
        [("daily_tokens", 80, 80)],
        [],
        [("daily_tokens", 100, 100)],
        [],
    ]
    assert [one.percent for one in account(daily_usd=1).charge(Amount(5.0, 1), NOON, NOON)] == [80, 100]


def test_a_sum_of_fractions_reaches_the_limit() -> None:
    """In floating point 0.08 is less than 80 % of 0.1, and ten times 0.01 less than all of it."""
    budget, cent = account(daily_usd=0.1), Amount(0.01, 1)
    told = [[one.percent for one in budget.charge(cent, NOON, NOON)] for _ in range(9)]
    assert told == [[]] * 7 + [[80], []]
    budget.check(NOON)
    budget.reserved = cent
    assert not budget.allows_another(NOON)
    assert [one.percent for one in budget.charge(cent, NOON, NOON)] == [100]
    assert budget.state(NOON).exhausted == ["daily_usd"]
    with pytest.raises(BudgetExhausted, match=r"0\.1 of 0\.1 US dollars"):
        budget.check(NOON)


def test_marks_are_for_those_who_see_all_workspaces() -> None:
    assert View().sees(Audience(None))
    assert not View(frozenset({"writer"})).sees(Audience(None))


def test_room_is_what_is_neither_used_nor_reserved() -> None:
    budget = account(daily_tokens=100)
    budget.charge(Amount(0, 60), NOON, NOON)
    assert budget.allows_another(NOON)
    budget.reserved = Amount(0, 39)
    assert budget.allows_another(NOON)
    budget.reserved = Amount(0, 40)
    assert not budget.allows_another(NOON)
    budget.check(NOON)
