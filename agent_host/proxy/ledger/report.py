"""Report on the ledger: sums by agent, team, user, session, model or day, and the latest calls."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, get_args

from pydantic import BaseModel
from sqlalchemy import ColumnElement, Connection, RowMapping, and_, case, func, select, true

from agent_common.protocol import Usage

from ...budgets import DAY_MS, day_of
from ...database import model_calls
from ...errors import InvalidRequest

MOST_SUMS = 10_000


Dimension = Literal["agent", "team", "subagent", "user", "session", "model", "day"]
DIMENSIONS: tuple[Dimension, ...] = get_args(Dimension)


class UsageSum(BaseModel):
    """All calls that agree in what they are grouped by; of the rest is null."""

    agent_id: str | None = None
    """The agent, with its subagents unless they are told apart."""
    team: str | None = None
    subagent: str | None = None
    """Null also for the agent itself."""
    user: str | None = None
    """The user, as the agent says."""
    session: str | None = None
    model: str | None = None
    day: str | None = None
    """The day in UTC, such as `2026-11-28`."""
    calls: int
    not_complete: int
    """Calls that failed, were dropped, or whose client disconnected."""
    usage: Usage
    """Sums over the calls whose provider reported usage; the cost is null if none of them has a known price."""
    cache_hit_rate: float | None
    """Share of the prompts' tokens that were read from the provider's cache; null without a prompt."""
    without_usage: int
    """Calls whose provider reported none."""
    without_price: int
    """Calls with usage whose model had no known price. Their cost is missing from the sum."""
    estimated: int
    """Calls whose usage is the host's estimate, because the agent disconnected before the provider reported it."""


class CallEntry(BaseModel):
    """One call. Times are epoch milliseconds."""

    request_id: str
    agent_id: str
    team: str
    session: str | None
    """The session that made it, as the agent says; null if it does not."""
    caller_session: str | None
    """Of a subagent the session that called it."""
    subagent: str | None
    """The name of a subagent; null for the agent itself."""
    user: str | None
    """The session's user, as the agent says."""
    operation: str
    model: str
    provider: str
    upstream_model: str
    streamed: bool
    status: str
    http_status: int | None
    started_at: int
    duration_ms: int
    usage: Usage | None
    estimated: bool
    """Whether the usage is the host's estimate."""
    asked_model: str | None
    """The name that the agent used, if `model` was asked in its place."""
    fallback_reason: str | None
    """Why another model was asked."""


class LedgerReport(BaseModel):
    """Answer of `GET /usage`."""

    sums: list[UsageSum]
    recent: list[CallEntry]
    """The latest calls, newest first."""
    cold_models: list[str] = []
    """Models that read nothing from their cache, although they were sent the same beginning again and again."""
    resting_providers: dict[str, float] = {}
    """Providers that are not asked for now because of outages, and for how many seconds more."""


@dataclass(frozen=True, slots=True)
class UsageQuery:
    """Which calls to report, and how to group their sums. None: all."""

    by: tuple[Dimension, ...] = ("agent", "model")
    agent: str | None = None
    team: str | None = None
    user: str | None = None
    session: str | None = None
    """With the subagents that it called."""
    model: str | None = None
    since: int | None = None
    """Epoch milliseconds."""
    until: int | None = None
    """Epoch milliseconds; calls that began at it are left out."""

    def conditions(self) -> Iterator[ColumnElement[bool]]:
        table = model_calls.c
        if self.agent is not None:
            yield table.agent_id == self.agent
        if self.team is not None:
            yield table.team == self.team
        if self.user is not None:
            yield table.principal == self.user
        if self.session is not None:
            yield (table.session == self.session) | (table.caller_session == self.session)
        if self.model is not None:
            yield table.model == self.model
        if self.since is not None:
            yield table.started_at >= self.since
        if self.until is not None:
            yield table.started_at < self.until


def read_report(connection: Connection, query: UsageQuery, limit: int) -> LedgerReport:
    """Return the sums of the calls, and the `limit` latest of them. Raises InvalidRequest for too many sums."""
    table = model_calls.c
    mine = and_(true(), *query.conditions())
    keys = [_KEYS[name] for name in query.by]
    sums = select(*keys, *_sums()).where(mine).group_by(*keys).order_by(*keys).limit(MOST_SUMS + 1)
    recent = select(model_calls).where(mine).order_by(table.id.desc()).limit(limit)
    rows = connection.execute(sums).mappings().all()
    if len(rows) > MOST_SUMS:
        message = f"would give more than {MOST_SUMS} sums; ask for fewer days, or for one agent, team or user"
        raise InvalidRequest(f"by: {message}", faults=[("by", message)])
    return LedgerReport(
        sums=[_sum(row) for row in rows],
        recent=[_entry(row) for row in connection.execute(recent).mappings()],
    )


_KEYS: dict[Dimension, ColumnElement[Any]] = {
    "agent": model_calls.c.agent_id,
    "team": model_calls.c.team,
    "subagent": model_calls.c.subagent,
    "user": model_calls.c.principal.label("user"),
    "session": model_calls.c.session,
    "model": model_calls.c.model,
    "day": (model_calls.c.started_at // DAY_MS).label("day"),
}
_BUCKETS = ("input", "output", "reasoning", "cache_read", "cache_write")


def _sums() -> list[Any]:
    table = model_calls.c
    unpriced = table.input.is_not(None) & table.cost_usd.is_(None)
    return [
        func.count().label("calls"),
        func.sum(case((table.status == "complete", 0), else_=1)).label("not_complete"),
        func.sum(case((table.input.is_(None), 1), else_=0)).label("without_usage"),
        func.sum(case((unpriced, 1), else_=0)).label("without_price"),
        func.sum(case((table.estimated, 1), else_=0)).label("estimated"),
        func.sum(table.cost_usd).label("cost_usd"),
        *(func.coalesce(func.sum(table[name]), 0).label(name) for name in _BUCKETS),
    ]


def _sum(row: RowMapping) -> UsageSum:
    prompt = row["input"] + row["cache_read"] + row["cache_write"]
    rate = round(row["cache_read"] / prompt, 4) if prompt else None
    day = {"day": day_of(row["day"] * DAY_MS)} if "day" in row else {}
    return UsageSum.model_validate({**row, **day, "usage": _usage(row), "cache_hit_rate": rate})


def _entry(row: RowMapping) -> CallEntry:
    usage = _usage(row) if row["input"] is not None else None
    return CallEntry.model_validate({**row, "user": row["principal"], "usage": usage})


def _usage(row: RowMapping) -> Usage:
    return Usage.model_validate({name: row[name] for name in (*_BUCKETS, "cost_usd")})
