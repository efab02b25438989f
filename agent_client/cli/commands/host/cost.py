"""`agent cost`: what model calls used, by agent and model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ...contexts import open_mesh
from ...run import Invocation, command

if TYPE_CHECKING:
    from .... import UsageReport

COLUMNS = ("agent", "model", "calls", "failed", "input", "output", "reasoning", "cache read", "cache write", "cost")


@command
async def cost(call: Invocation) -> None:
    """Sum up what model calls used, by agent and model. With -w only of one agent, with --user only for
    one person."""
    target = call.whole()
    async with open_mesh(target) as mesh:
        report = await mesh.usage(target.workspace, recent=1, user=target.user)
    total, unpriced = totals(report)
    calls = sum(one.without_price for one in report.sums)
    if call.output.json:
        sums = [one.model_dump(mode="json") for one in report.sums]
        call.output.document(
            {"sums": sums, "total_cost_usd": total, "unpriced_models": unpriced, "calls_without_price": calls}
        )
        return
    rows = [
        (
            *(one.agent_id, one.model, one.calls, one.not_complete),
            *(one.usage.input, one.usage.output, one.usage.reasoning, one.usage.cache_read, one.usage.cache_write),
            _dollars(one.usage.cost_usd, one.without_price),
        )
        for one in report.sums
    ]
    call.output.table(COLUMNS, rows)
    call.output.note(in_all(total, calls, unpriced))


def in_all(total: float, calls: int, unpriced: Sequence[str]) -> str:
    """Return the sum in words, with how many calls it lacks for want of a price, and of which models."""
    counted = "1 call has" if calls == 1 else f"{calls} calls have"
    missing = f"; {counted} no known price ({', '.join(unpriced)})" if calls else " in all"
    return f"{_dollars(total, calls)}{missing}"


def _dollars(cost: float | None, without_price: int) -> str:
    return "unknown" if cost is None else f"at least ${cost:.4f}" if without_price else f"${cost:.4f}"


def totals(report: UsageReport) -> tuple[float, list[str]]:
    """Return the dollars of all calls with a known price, and the models of those without."""
    known: list[Any] = [one.usage.cost_usd for one in report.sums if one.usage.cost_usd is not None]
    return sum(known), sorted({one.model for one in report.sums if one.without_price})
