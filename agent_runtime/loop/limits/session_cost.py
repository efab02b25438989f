"""Compute what sessions have cost, on request, and check which models a cost limit admits
(docs/explanation/design.md#tokens-are-counted-in-five-buckets)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from agent_common.protocol import ModelCard, Usage

from ...errors import InvalidRequest, MeshUnavailable
from ...ports import ModelCards
from .limits import UsageBudget

FindCard = Callable[[str], Awaitable[ModelCard | None]]
"""Returns the catalog entry of a model, with its prices; None if the catalog has none."""
UNPRICED = "unpriced_model"


@dataclass(frozen=True, slots=True)
class PriceCheck:
    """Refuses a turn with an explicit cost limit if its model has no price, because the limit could not be enforced."""

    model_cards: ModelCards

    async def require(self, model: str, budget: UsageBudget) -> None:
        """Raise InvalidRequest `unpriced_model` if the model needs a price and has none, or MeshUnavailable if the
        catalog cannot be read."""
        if not budget.price_needed:
            return
        card = await self.model_cards.card(model)
        if card is None and self.model_cards.reachable is False:
            raise MeshUnavailable(f"the price of model {model} is unknown: the mesh cannot be reached")
        if card is None or card.pricing is None:
            raise InvalidRequest(
                f"model {model} has no known price, so its cost cannot be limited",
                code=UNPRICED,
                faults=[("token_budget.max_cost_usd", "remove it or give the model a price in the mesh's catalog")],
            )


async def cost_of(usage_by_model: Mapping[str, Usage], find_card: FindCard) -> tuple[float | None, list[str]]:
    """Return the cost in US dollars at the catalog's prices, and the models without a price.

    For a model without a price in the catalog, the cost that the mesh reported with each call counts. If that is
    missing too for a model that used tokens, the sum is None.
    """
    from ...mesh import with_cost

    total, unpriced = 0.0, list[str]()
    for model, usage in usage_by_model.items():
        if not usage.total:
            continue
        known = await find_card(model)
        at_the_time = usage.cost_usd
        now = with_cost(usage.model_copy(update={"cost_usd": None}), known.pricing if known else None).cost_usd
        cost = at_the_time if now is None else now
        if cost is None:
            unpriced.append(model)
        else:
            total += cost
    return (None if unpriced else total), unpriced
