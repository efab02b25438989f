"""What a session has cost, counted when somebody asks (spec/agent-system.md U6, C24)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from ..protocol import ModelCard, Usage

Card = Callable[[str], Awaitable[ModelCard | None]]
"""Model -> what the catalog says of it, prices among the rest; none when it says nothing."""


async def cost_of(spent: Mapping[str, Usage], card: Card) -> tuple[float | None, list[str]]:
    """Dollars at the catalog's prices, and the models that have none.

    Where the catalog has no price, what the mesh counted at the time stands. With an unpriced model that used tokens
    the sum is unknown.
    """
    from ..mesh import priced

    total, unpriced = 0.0, list[str]()
    for model, usage in spent.items():
        if not usage.total:
            continue
        known = await card(model)
        at_the_time = usage.cost_usd
        now = priced(usage.model_copy(update={"cost_usd": None}), known.pricing if known else None).cost_usd
        cost = at_the_time if now is None else now
        if cost is None:
            unpriced.append(model)
        else:
            total += cost
    return (None if unpriced else total), unpriced
