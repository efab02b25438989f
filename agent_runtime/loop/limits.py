"""What a turn may use, what it has used, and how it can end."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from ..protocol import Usage
from ..protocol.chunks import FinishReason

Status = Literal["complete", "failed", "timeout", "cancelled"]
IN_ERROR: tuple[Status, ...] = ("failed", "timeout")
USUAL_OUTPUT = 8192
"""Tokens in one answer that nearly every model can give."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a turn may use. Chat and task differ here and in the result contract, nowhere else."""

    steps: int
    seconds: float
    """Of running; time in the queue does not count."""
    tokens: int | None = None
    tokens_before: int = 0
    """Tokens that count against the budget though they were spent elsewhere."""
    cost_usd: float | None = None
    cost_before: float = 0.0
    max_output: int | None = None
    """Tokens the model gives at most in one answer, where known."""
    retries: int = 0
    """Further attempts after a transient model failure that the model client could not get over."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a turn ended (DESIGN.md 5, outcomes)."""

    status: Status
    finish_reason: FinishReason | Literal["abort"]
    error_code: str | None = None
    error: str | None = None
    limit: str | None = None

    @property
    def in_error(self) -> bool:
        """The session rests: what waits in it runs only behind the next message that somebody sends."""
        return self.status in IN_ERROR

    def json(self) -> dict[str, Any]:
        fields = {name: getattr(self, name) for name in self.__slots__}
        return {name: value for name, value in fields.items() if value is not None}


INTERNAL = Outcome("failed", "error", "internal_error", "the runtime failed; its log says more")
"""The outcome of a turn that met a bug of ours, or a disk that is gone."""


UNRECORDED = Outcome("failed", "error", "store_unavailable", "nothing can be recorded: the disk is full or broken")
"""The outcome of a turn whose record the disk refused."""


class LimitReached(Exception):
    """Leaves the loop from anywhere; carries the outcome."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(outcome.error)
        self.outcome = outcome


@dataclass(slots=True)
class Books:
    """What a turn has used so far, held against its limits."""

    limits: Limits
    usage: Usage = field(default_factory=Usage)
    cost_usd: float = 0.0
    """Of the calls whose price is known."""
    steps: int = 0
    retries: int = 0

    def spend(self, usage: Usage) -> None:
        """Adds a model call."""
        self.usage = self.usage.plus(usage)
        self.cost_usd += usage.cost_usd or 0.0

    def check(self, *, for_another_call: bool = False) -> None:
        """Raises LimitReached when the budget is overdrawn, or used up and another call is due."""
        limits = self.limits
        tokens = limits.tokens_before + self.usage.total
        if limits.tokens is not None and (tokens > limits.tokens or (for_another_call and tokens == limits.tokens)):
            raise LimitReached(_exhausted("tokens", f"{tokens} of {limits.tokens} tokens"))
        cost = limits.cost_before + (self.cost_usd)
        if limits.cost_usd is not None and (cost > limits.cost_usd or (for_another_call and cost >= limits.cost_usd)):
            raise LimitReached(_exhausted("cost", f"{cost:.6f} of {limits.cost_usd:g} US dollars"))

    def output_cap(self) -> int | None:
        """Tokens the next answer may have; none unless the budget leaves less than the model would give anyway."""
        limits = self.limits
        if limits.tokens is None:
            return None
        left = limits.tokens - limits.tokens_before - self.usage.total
        return left if left < (limits.max_output or USUAL_OUTPUT) else None


def _exhausted(limit: str, spent: str) -> Outcome:
    return Outcome("failed", "length", "budget_exhausted", f"the budget is used up: {spent}", limit)
