"""Add the price of a model to the usage of its calls."""

from __future__ import annotations

from agent_common.completions import cost_of
from agent_common.protocol import Pricing, Usage


def with_cost(usage: Usage, pricing: Pricing | None) -> Usage:
    """Return the usage with its cost, if the provider gave none and the model has a price."""
    if pricing is None or usage.cost_usd is not None:
        return usage
    return usage.model_copy(update={"cost_usd": cost_of(usage, pricing)})
