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
"""Model -> what the catalog says of it, prices among the rest; none when it says nothing."""
UNPRICED = "unpriced_model"


@dataclass(frozen=True, slots=True)
class PriceCheck:
    """Refuses models without a price to turns whose cost is limited explicitly: such a limit could not be watched."""

    model_cards: ModelCards

    async def require(self, model: str, budget: UsageBudget) -> None:
        """Raises InvalidRequest `unpriced_model`, or MeshUnavailable when the catalog cannot be read."""
        if not budget.price_needed:
            return
        card = await self.model_cards.card(model)
        if card is None and self.model_cards.reachable is False:
            raise MeshUnavailable(f"the mesh cannot be asked what model {model} costs")
        if card is None or card.pricing is None:
            raise InvalidRequest(
                f"model {model} has no known price, so its cost cannot be limited",
                code=UNPRICED,
                faults=[("token_budget.max_cost_usd", "remove it or give the model a price in the mesh's catalog")],
            )


async def cost_of(usage_by_model: Mapping[str, Usage], find_card: FindCard) -> tuple[float | None, list[str]]:
    """Dollars at the catalog's prices, and the models that have none.

    Where the catalog has no price, what the mesh counted at the time stands. With an unpriced model that used tokens
    the sum is unknown.
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
