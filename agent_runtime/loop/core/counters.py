"""Statistics of what the agent has done since it started."""

from __future__ import annotations

from dataclasses import dataclass

from ...ports import Fallback
from .turn_state import Turn


@dataclass(slots=True)
class Counters:
    """Counts steps and tasks, and knows the current model and how full its window is."""

    steps: int = 0
    completed_tasks: int = 0
    failed_tasks: int = 0
    last_step_ms: int | None = None
    """When the latest step ended, in epoch milliseconds."""
    context_tokens: int = 0
    """Tokens in the window of `model`, as of its latest call in that session."""
    model: str | None = None
    """The model of the turn that began last; None before the first turn. Subagents do not count."""

    fallback: Fallback | None = None
    """The model that answered its latest call in its place."""

    def update_model(self, turn: Turn) -> None:
        """Record the turn's model and the size of its context."""
        if turn.request.parent is None:
            self.model = turn.model
            self.context_tokens = turn.session.context_tokens
            self.fallback = turn.fallback

    def count_step(self, turn: Turn, now_ms: int) -> None:
        self.update_model(turn)
        self.steps += 1
        self.last_step_ms = now_ms

    def count_end(self, turn: Turn) -> None:
        self.update_model(turn)
        if turn.request.task_id is not None:
            complete = turn.end.outcome is not None and turn.end.outcome.status == "complete"
            self.completed_tasks += complete
            self.failed_tasks += not complete
