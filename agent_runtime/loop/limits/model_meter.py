"""Charge the model calls of a turn's tools to the budget of the turn."""

from __future__ import annotations

from dataclasses import dataclass, field

from agent_common.protocol import Usage

from ...errors import InvalidRequest, ToolFailure
from ...ports import ModelMeter
from .budget import UsageBudget
from .outcome import LimitReached
from .price_check import PriceCheck


@dataclass(frozen=True, slots=True)
class TurnMeter:
    """Implements ModelMeter for a turn."""

    budget: UsageBudget
    price_check: PriceCheck | None

    async def check_budget(self, model: str) -> None:
        try:
            self.budget.check(for_another_call=True)
            if self.price_check is not None:
                await self.price_check.require(model, self.budget)
        except LimitReached as reached:
            raise ToolFailure(f"no more model calls in this turn: {reached.outcome.error}", kind="denied") from None
        except InvalidRequest as refusal:
            raise ToolFailure(refusal.message, kind="denied") from None

    def spend(self, usage: Usage) -> None:
        self.budget.add_helper_usage(usage)


@dataclass(slots=True)
class CallMeter:
    """Implements ModelMeter for one tool call, and sums up the usage of that call."""

    parent: ModelMeter
    usage: Usage = field(default_factory=Usage)

    async def check_budget(self, model: str) -> None:
        await self.parent.check_budget(model)

    def spend(self, usage: Usage) -> None:
        self.usage = self.usage.plus(usage)
        self.parent.spend(usage)
