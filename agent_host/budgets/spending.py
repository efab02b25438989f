"""What the scopes of budgets have used, as rows by day and month. Only scopes with a budget have any."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, func, insert, select
from sqlalchemy.dialects import postgresql, sqlite

from ..database import budget_spending, model_calls
from .amount import Amount
from .origin import CallOrigin
from .periods import Period, name_of, start_of

_PERIODS: tuple[Period, ...] = ("daily", "monthly")
_BUCKETS = ("input", "output", "reasoning", "cache_read", "cache_write")


@dataclass(frozen=True, slots=True)
class Charge:
    """What one call has used."""

    origin: CallOrigin
    began: int
    """Epoch milliseconds."""
    amount: Amount
    reserve_id: str | None = None


def add_charges(connection: Connection, charges: Iterable[Charge], known: Collection[str]) -> None:
    """Add the charges to the rows of those scopes that are `known` to have a budget."""
    sums: dict[tuple[str, str], Amount] = {}
    for charge in charges:
        for scope in charge.origin.scopes:
            if scope in known:
                for period in _PERIODS:
                    key = scope, name_of(period, charge.began)
                    sums[key] = sums.get(key, Amount()).plus(charge.amount)
    if not sums:
        return
    dialect = sqlite if connection.dialect.name == "sqlite" else postgresql
    statement = dialect.insert(budget_spending)
    table = budget_spending.c
    new = statement.excluded
    added = {"usd": table.usd + new.usd, "tokens": table.tokens + new.tokens}
    connection.execute(
        statement.on_conflict_do_update(index_elements=[table.scope, table.period], set_=added),
        [
            {"scope": scope, "period": period, "usd": amount.usd, "tokens": amount.tokens}
            for (scope, period), amount in sorted(sums.items(), key=lambda one: one[0])
        ],
    )


def begin_spending(connection: Connection, scope: str, now: int) -> dict[str, Amount]:
    """Write the rows of a scope whose budget is new, from the ledger's calls of the present day and month."""
    found = {name_of(period, now): _sum_since(connection, scope, start_of(period, now)) for period in _PERIODS}
    rows = [{"scope": scope, "period": period, "usd": one.usd, "tokens": one.tokens} for period, one in found.items()]
    connection.execute(insert(budget_spending), rows)
    return found


def read_spending(connection: Connection) -> Mapping[str, dict[str, Amount]]:
    """Return what was used in the days and months that are kept, by scope."""
    found: dict[str, dict[str, Amount]] = {}
    for row in connection.execute(select(budget_spending)).mappings():
        found.setdefault(row["scope"], {})[row["period"]] = Amount(row["usd"], row["tokens"])
    return found


def _sum_since(connection: Connection, scope: str, since: int) -> Amount:
    table = model_calls.c
    tokens = sum((_total(name) for name in _BUCKETS[1:]), _total(_BUCKETS[0]))
    query = select(func.coalesce(func.sum(table.cost_usd), 0.0), tokens)
    row = connection.execute(query.where(_calls_of(scope), table.started_at >= since)).one()
    return Amount(float(row[0]), int(row[1]))


def _total(name: str) -> ColumnElement[Any]:
    return func.coalesce(func.sum(model_calls.c[name]), 0)


def _calls_of(scope: str) -> ColumnElement[bool]:
    kind, _, name = scope.partition(":")
    table = model_calls.c
    if kind == "team":
        return table.team == name
    agent_id, _, subagent = name.partition("/")
    mine = table.agent_id == agent_id
    return mine & (table.subagent == subagent) if subagent else mine
