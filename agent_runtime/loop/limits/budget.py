"""The usage of a turn so far, checked against its limits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from agent_common.protocol import Usage

from .egress_meter import TurnEgress
from .outcome import UNPRICED, LimitReached, TurnOutcome
from .turn_limits import TurnLimits

DEFAULT_MAX_OUTPUT = 8192
"""Output tokens that nearly every model can give in one answer."""


@dataclass(slots=True)
class UsageBudget:
    """The usage of a turn so far, checked against its limits."""

    limits: TurnLimits
    usage: Usage = field(default_factory=Usage)
    cost_usd: float = 0.0
    """Cost of the calls whose price is known."""
    steps: int = 0
    retries: int = 0
    calls: int = 0
    """Tool calls that were started."""
    caller_budget: UsageBudget | None = None
    """The budget of the calling turn, which this turn uses too; None for a turn without a caller."""
    recorded_separately: bool = False
    """Whether the usage is stored on a record of its own instead of the caller's."""
    helper_tokens: int = 0
    helper_cost_usd: float = 0.0
    """Tokens and cost of subagents and summaries that are stored on records of their own."""
    unpriced: bool = False
    """Whether the cost of a finished call is unknown."""
    egress: TurnEgress = field(init=False)

    def __post_init__(self) -> None:
        self.egress = TurnEgress(self.limits.egress)

    def narrow(self, limit: Callable[[TurnLimits], TurnLimits]) -> None:
        """Replace the limits by narrower ones, which `limit` returns."""
        self.limits = limit(self.limits)
        self.egress.max_bytes = self.limits.egress

    @property
    def price_needed(self) -> bool:
        """Whether only models with a known price may be called, by this turn's limits or a caller's."""
        return self.limits.price_needed or (self.caller_budget is not None and self.caller_budget.price_needed)

    @property
    def tokens(self) -> int:
        """All tokens that count against the budget, including those of helpers."""
        return self.usage.total + self.helper_tokens

    def spend(self, usage: Usage, *, cut_off: bool = False) -> None:
        """Add the usage of a model call to this budget and to the callers' budgets.

        `cut_off`: the answer broke off, and the usage is an estimate. Its cost may be unknown though its model's price
        is not, so an unknown one does not end a turn with a limit on the cost."""
        self.usage = self.usage.plus(usage)
        self.cost_usd += usage.cost_usd or 0.0
        self._note_price(usage, cut_off=cut_off)
        if self.caller_budget is not None and self.recorded_separately:
            self.caller_budget.add_helper_usage(usage, cut_off=cut_off)
        elif self.caller_budget is not None:
            self.caller_budget.spend(usage, cut_off=cut_off)

    def add_helper_usage(self, usage: Usage, *, cut_off: bool = False) -> None:
        """Add the usage of a model call that is stored on a helper's own record."""
        self.helper_tokens += usage.total
        self.helper_cost_usd += usage.cost_usd or 0.0
        self._note_price(usage, cut_off=cut_off)
        if self.caller_budget is not None:
            self.caller_budget.add_helper_usage(usage, cut_off=cut_off)

    def restore(self, usage: Usage) -> None:
        """Begin with what an earlier process has recorded for the turn."""
        self.usage = usage
        self.cost_usd = usage.cost_usd or 0.0
        self._note_price(usage)

    def adopt_helper_usage(self, usage: Usage) -> None:
        """Move a helper's usage to this record, because the helper has none of its own after all."""
        self.helper_tokens -= usage.total
        self.helper_cost_usd -= usage.cost_usd or 0.0
        self.usage = self.usage.plus(usage)
        self.cost_usd += usage.cost_usd or 0.0

    def check(self, *, for_another_call: bool = False) -> None:
        """Check tokens, cost and egress. Raises LimitReached if one is exceeded, if it is used up and
        `for_another_call` is set, or if the cost is limited explicitly and unknown."""
        if self.caller_budget is not None:
            self.caller_budget.check(for_another_call=for_another_call)
        limits = self.limits
        if limits.tokens is not None:
            tokens = limits.tokens_before + self.tokens
            if tokens > limits.tokens or (for_another_call and tokens == limits.tokens):
                raise LimitReached(_exhausted("tokens", f"{tokens} of {limits.tokens} tokens"))
        if limits.price_needed and self.unpriced:
            raise LimitReached(_COST_UNKNOWN)
        cost = limits.cost_before + self.cost_usd + self.helper_cost_usd
        if limits.cost_usd is not None and (cost > limits.cost_usd or (for_another_call and cost >= limits.cost_usd)):
            raise LimitReached(_exhausted("cost", f"{cost:.6f} of {limits.cost_usd:g} US dollars"))
        if self.egress.exceeded:
            sent = f"{self.egress.sent_bytes} of {limits.egress} bytes of egress, and more wanted"
            raise LimitReached(_exhausted("egress_bytes", sent))

    def _note_price(self, usage: Usage, *, cut_off: bool = False) -> None:
        if usage.total and usage.cost_usd is None and not cut_off:
            self.unpriced = True

    def begin_calls(self, count: int) -> None:
        """Count new tool calls. Raises LimitReached, and counts none, if not all of them are allowed."""
        if self.caller_budget is not None:
            self.caller_budget.begin_calls(count)
        most = self.limits.calls
        if most is not None and self.calls + count > most:
            raise LimitReached(_exhausted("tool_calls", f"{self.calls} of {most} tool calls, and {count} more wanted"))
        self.calls += count

    def output_cap(self) -> int | None:
        """Return the maximum tokens of the next answer; None if the budget does not limit it below the model's own
        maximum."""
        caps = [cap for cap in (self.limits.answer_tokens, self._budget_cap()) if cap is not None]
        return min(caps, default=None)

    def _budget_cap(self) -> int | None:
        limits = self.limits
        if limits.tokens is None:
            return self.caller_budget.output_cap() if self.caller_budget is not None else None
        left = limits.tokens - limits.tokens_before - self.tokens
        return left if left < (limits.max_output or DEFAULT_MAX_OUTPUT) else None


_COST_UNKNOWN = TurnOutcome(
    "failed", "error", UNPRICED, "a model call has no known cost, so the limit on the cost cannot be kept"
)


def _exhausted(limit: str, spent: str) -> TurnOutcome:
    return TurnOutcome("failed", "length", "budget_exhausted", f"the budget is used up: {spent}", limit)
