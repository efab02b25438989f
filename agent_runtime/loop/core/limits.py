"""What a turn may use, what it has used, and how it can end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from agent_common.protocol import Usage
from agent_common.protocol.chunks import FinishReason

from .egress_meter import TurnEgress

Status = Literal["complete", "failed", "timeout", "cancelled"]
ERROR_STATUSES: tuple[Status, ...] = ("failed", "timeout")
DEFAULT_MAX_OUTPUT = 8192
"""Tokens in one answer that nearly every model can give."""


@dataclass(frozen=True, slots=True)
class TurnLimits:
    """What a turn may use. Chat and task differ here and in the result contract, nowhere else."""

    steps: int
    seconds: float
    """Of running; time in the queue does not count."""
    tokens: int | None = None
    tokens_before: int = 0
    """Tokens that count against the budget though they were spent elsewhere."""
    cost_usd: float | None = None
    cost_before: float = 0.0
    price_needed: bool = False
    """The limit on cost was set explicitly: only models whose price is known may be called."""
    max_output: int | None = None
    """Tokens the model gives at most in one answer, where known."""
    answer_tokens: int | None = None
    """Tokens that one answer may have; none: what the model gives."""
    retries: int = 0
    """Further attempts after a transient model failure that the model client could not get over."""
    attempts: int | None = None
    """Times the model client makes a call before such a failure counts; none: as often as it always does."""
    calls: int | None = None
    """Tool calls; none: as many as the steps allow."""
    egress: int | None = None
    """Bytes that tools send out of the workspace."""

    def within(
        self,
        *,
        seconds: float | None = None,
        tokens: int | None = None,
        calls: int | None = None,
        egress: int | None = None,
    ) -> TurnLimits:
        """The same, and no more than this."""
        return replace(
            self,
            seconds=min(self.seconds, seconds) if seconds is not None else self.seconds,
            tokens=tokens if self.tokens is None else min(self.tokens, tokens or self.tokens),
            calls=calls if self.calls is None else min(self.calls, calls if calls is not None else self.calls),
            egress=egress,
        )

    def at_most(self, steps: int | None) -> TurnLimits:
        """The same with fewer steps, if that is fewer."""
        return self if steps is None or steps >= self.steps else replace(self, steps=steps)


@dataclass(frozen=True, slots=True)
class TurnOutcome:
    """How a turn ended (docs/protocols/task.md#how-it-ends)."""

    status: Status
    finish_reason: FinishReason | Literal["abort"]
    error_code: str | None = None
    error: str | None = None
    limit: str | None = None
    retry_after: float | None = None
    """Seconds that the model's provider asks to wait."""

    @property
    def in_error(self) -> bool:
        """The session rests: what waits in it runs only behind the next message that somebody sends."""
        return self.status in ERROR_STATUSES

    def json(self) -> dict[str, Any]:
        fields = {name: getattr(self, name) for name in self.__slots__}
        return {name: value for name, value in fields.items() if value is not None}


INTERNAL_FAILURE = TurnOutcome("failed", "error", "internal_error", "the runtime failed; its log says more")
"""The outcome of a turn that met a bug of ours, or a disk that is gone."""


STORE_FAILURE = TurnOutcome(
    "failed", "error", "store_unavailable", "nothing can be recorded: the disk is full or broken"
)
"""The outcome of a turn whose record the disk refused."""


class LimitReached(Exception):
    """Leaves the loop from anywhere; carries the outcome."""

    def __init__(self, outcome: TurnOutcome) -> None:
        super().__init__(outcome.error)
        self.outcome = outcome


@dataclass(slots=True)
class UsageBudget:
    """What a turn has used so far, held against its limits."""

    limits: TurnLimits
    usage: Usage = field(default_factory=Usage)
    cost_usd: float = 0.0
    """Of the calls whose price is known."""
    steps: int = 0
    retries: int = 0
    calls: int = 0
    """Tool calls that were begun."""
    caller_budget: UsageBudget | None = None
    """Of a turn that helps another one: the books of that one, whose budget it uses too."""
    recorded_separately: bool = False
    """Its usage is on a record of its own and not on its caller's."""
    helper_tokens: int = 0
    helper_cost_usd: float = 0.0
    """What turns have used that helped this one and have a record of their own."""
    egress: TurnEgress = field(init=False)

    def __post_init__(self) -> None:
        self.egress = TurnEgress(self.limits.egress)

    def narrow(self, limit: Callable[[TurnLimits], TurnLimits]) -> None:
        """Puts narrower limits in the place of its own."""
        self.limits = limit(self.limits)
        self.egress.max_bytes = self.limits.egress

    @property
    def price_needed(self) -> bool:
        """Only models whose price is known may be called: its own limits say so, or those of a caller."""
        return self.limits.price_needed or (self.caller_budget is not None and self.caller_budget.price_needed)

    @property
    def tokens(self) -> int:
        """All that count against a budget, those included that others have used who helped."""
        return self.usage.total + self.helper_tokens

    def spend(self, usage: Usage) -> None:
        """Adds a model call."""
        self.usage = self.usage.plus(usage)
        self.cost_usd += usage.cost_usd or 0.0
        if self.caller_budget is not None and self.recorded_separately:
            self.caller_budget.add_helper_usage(usage)
        elif self.caller_budget is not None:
            self.caller_budget.spend(usage)

    def add_helper_usage(self, usage: Usage) -> None:
        """Adds a model call of a turn that helps this one."""
        self.helper_tokens += usage.total
        self.helper_cost_usd += usage.cost_usd or 0.0
        if self.caller_budget is not None:
            self.caller_budget.add_helper_usage(usage)

    def adopt_helper_usage(self, usage: Usage) -> None:
        """What a helper has used without a record of its own goes on this one's."""
        self.helper_tokens -= usage.total
        self.helper_cost_usd -= usage.cost_usd or 0.0
        self.usage = self.usage.plus(usage)
        self.cost_usd += usage.cost_usd or 0.0

    def check(self, *, for_another_call: bool = False) -> None:
        """Raises LimitReached when the budget is overdrawn, or used up and another call is due."""
        if self.caller_budget is not None:
            self.caller_budget.check(for_another_call=for_another_call)
        limits = self.limits
        tokens = limits.tokens_before + self.tokens
        if limits.tokens is not None and (tokens > limits.tokens or (for_another_call and tokens == limits.tokens)):
            raise LimitReached(_exhausted("tokens", f"{tokens} of {limits.tokens} tokens"))
        cost = limits.cost_before + self.cost_usd + self.helper_cost_usd
        if limits.cost_usd is not None and (cost > limits.cost_usd or (for_another_call and cost >= limits.cost_usd)):
            raise LimitReached(_exhausted("cost", f"{cost:.6f} of {limits.cost_usd:g} US dollars"))
        if self.egress.exceeded:
            sent = f"{self.egress.sent_bytes} of {limits.egress} bytes of egress, and more wanted"
            raise LimitReached(_exhausted("egress_bytes", sent))

    def begin_calls(self, count: int) -> None:
        """Raises LimitReached when not all of these calls may be made; then none is."""
        if self.caller_budget is not None:
            self.caller_budget.begin_calls(count)
        most = self.limits.calls
        if most is not None and self.calls + count > most:
            raise LimitReached(_exhausted("tool_calls", f"{self.calls} of {most} tool calls, and {count} more wanted"))
        self.calls += count

    def output_cap(self) -> int | None:
        """Tokens the next answer may have; none unless the budget leaves less than the model would give anyway."""
        caps = [cap for cap in (self.limits.answer_tokens, self._budget_cap()) if cap is not None]
        return min(caps, default=None)

    def _budget_cap(self) -> int | None:
        limits = self.limits
        if limits.tokens is None:
            return self.caller_budget.output_cap() if self.caller_budget is not None else None
        left = limits.tokens - limits.tokens_before - self.tokens
        return left if left < (limits.max_output or DEFAULT_MAX_OUTPUT) else None


def _exhausted(limit: str, spent: str) -> TurnOutcome:
    return TurnOutcome("failed", "length", "budget_exhausted", f"the budget is used up: {spent}", limit)
