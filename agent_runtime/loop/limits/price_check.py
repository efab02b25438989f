"""Check which models a cost limit admits (docs/explanation/design.md#tokens-are-counted-in-five-buckets)."""

from __future__ import annotations

from dataclasses import dataclass

from ...errors import InvalidRequest, MeshUnavailable
from ...ports import ModelCards
from .budget import UsageBudget
from .outcome import UNPRICED

PRICE_SECONDS = 1.0
"""Maximum age of a price that admits a limit on the cost: the host may have restarted with another catalog."""


@dataclass(frozen=True, slots=True)
class PriceCheck:
    """Refuses a turn with an explicit cost limit if its model has no price, because the limit could not be enforced."""

    model_cards: ModelCards

    async def require(self, model: str, budget: UsageBudget) -> None:
        """Raise InvalidRequest `unpriced_model` if the model needs a price and has none, or MeshUnavailable if the
        catalog cannot be read."""
        if not budget.price_needed:
            return
        card = await self.model_cards.card(model, PRICE_SECONDS)
        if card is None and self.model_cards.reachable is False:
            raise MeshUnavailable(f"the price of model {model} is unknown: the mesh cannot be reached")
        if card is None or card.pricing is None:
            raise InvalidRequest(
                f"model {model} has no known price, so its cost cannot be limited",
                code=UNPRICED,
                faults=[("token_budget.max_cost_usd", "remove it or give the model a price in the mesh's catalog")],
            )
