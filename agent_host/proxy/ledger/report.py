"""Report on the ledger: sums by agent and model, and the latest calls."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel
from sqlalchemy import Connection, RowMapping, case, func, select

from agent_common.protocol import Usage

from ...database import model_calls


class UsageSum(BaseModel):
    """All calls of one agent to one model."""

    agent_id: str
    model: str
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


def read_report(connection: Connection, agent: str | None, limit: int) -> LedgerReport:
    """Return the report on one agent, or on all if `agent` is None, with the `limit` latest calls."""
    table = model_calls.c
    mine = table.agent_id == agent if agent else table.id > 0
    sums = (
        select(table.agent_id, table.model, *_sums())
        .where(mine)
        .group_by(table.agent_id, table.model)
        .order_by(table.agent_id, table.model)
    )
    recent = select(model_calls).where(mine).order_by(table.id.desc()).limit(limit)
    return LedgerReport(
        sums=[_sum(row) for row in connection.execute(sums).mappings()],
        recent=[_entry(row) for row in connection.execute(recent).mappings()],
    )


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
    return UsageSum.model_validate({**row, "usage": _usage(row), "cache_hit_rate": rate})


def _entry(row: RowMapping) -> CallEntry:
    return CallEntry.model_validate({**row, "usage": _usage(row) if row["input"] is not None else None})


def _usage(row: RowMapping) -> Usage:
    return Usage.model_validate({name: row[name] for name in (*_BUCKETS, "cost_usd")})
