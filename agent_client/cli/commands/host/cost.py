"""`agent cost`: what model calls used, by agent and model."""

from __future__ import annotations

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
    target = call.target()
    async with open_mesh(target) as mesh:
        report = await mesh.usage(target.workspace, recent=1, user=target.user)
    total, unpriced = totals(report)
    if call.output.json:
        sums = [one.model_dump(mode="json") for one in report.sums]
        call.output.document({"sums": sums, "total_cost_usd": total, "unpriced_models": unpriced})
        return
    rows = [
        (
            *(one.agent_id, one.model, one.calls, one.not_complete),
            *(one.usage.input, one.usage.output, one.usage.reasoning, one.usage.cache_read, one.usage.cache_write),
            "unknown" if one.usage.cost_usd is None else f"${one.usage.cost_usd:.4f}",
        )
        for one in report.sums
    ]
    call.output.table(COLUMNS, rows)
    unknown = f", without {', '.join(unpriced)}, which have no known price" if unpriced else ""
    call.output.note(f"${total:.4f} in all{unknown}")


def totals(report: UsageReport) -> tuple[float, list[str]]:
    """Return the dollars of all models with a known price, and the names of those without."""
    known: list[Any] = [one.usage.cost_usd for one in report.sums if one.usage.cost_usd is not None]
    return sum(known), sorted({one.model for one in report.sums if one.usage.cost_usd is None and one.usage.total})
