"""Sum up what sessions have cost, on request (docs/explanation/design.md#tokens-are-counted-in-five-buckets)."""

from __future__ import annotations

from collections.abc import Mapping

from agent_common.protocol import Usage


def cost_of(usage_by_model: Mapping[str, Usage]) -> tuple[float | None, list[str]]:
    """Return the recorded cost in US dollars, and the models of which some call has none. The cost is then None."""
    used = {model: usage for model, usage in usage_by_model.items() if usage.total}
    unpriced = [model for model, usage in used.items() if usage.cost_usd is None]
    return (None if unpriced else sum((usage.cost_usd or 0.0 for usage in used.values()), 0.0)), unpriced
