"""How far a turn may go."""

from __future__ import annotations

from collections.abc import Mapping

from agent_common.protocol import ModelCard, TaskAssignment

from ..context import ContextWindow
from ..loop import TurnLimits
from ..settings import DEFAULT_CONTEXT, Settings


class TurnLimitPolicy:
    """The limits of a turn, from the settings, the assignment and what the mesh says about the model."""

    def __init__(self, settings: Settings, cards: Mapping[str, ModelCard]) -> None:
        self._settings = settings
        self._cards = cards

    def window(self, model: str) -> ContextWindow:
        """What the operator says of the agent's own model counts; of any other model it is only the upper limit."""
        card = self._cards.get(model)
        most = self._settings.context_limit
        card_limit = card.context_limit if card else None
        if most is not None and card_limit is not None and model != self._settings.model:
            most = min(most, card_limit)
        limit = most or card_limit or DEFAULT_CONTEXT
        reserve = self._settings.compaction.reserve_tokens
        known = most is not None or card_limit is not None
        return ContextWindow.from_limit(limit, card.max_output_tokens if card else None, reserve, known=known)

    def chat(self) -> TurnLimits:
        return TurnLimits(self._settings.max_rounds, self._settings.turn_timeout, max_output=self._max_output())

    def subagent(self) -> TurnLimits:
        return TurnLimits(self._settings.max_iterations, self._settings.subagent_timeout)

    def task(self, assignment: TaskAssignment) -> TurnLimits:
        budget = assignment.token_budget
        if budget is None:
            return TurnLimits(
                self._settings.max_iterations,
                assignment.timeout,
                retries=assignment.max_retries,
                max_output=self._max_output(),
            )
        return TurnLimits(
            self._settings.max_iterations,
            assignment.timeout,
            tokens=budget.max_tokens,
            tokens_before=budget.used_tokens,
            cost_usd=budget.max_cost_usd,
            price_needed="max_cost_usd" in budget.model_fields_set,
            cost_before=budget.estimated_cost_usd,
            retries=assignment.max_retries,
            max_output=self._max_output(),
        )

    def _max_output(self) -> int | None:
        card = self._cards.get(self._settings.model)
        return card.max_output_tokens if card else None
