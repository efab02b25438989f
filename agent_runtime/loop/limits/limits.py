"""The limits of a turn, its usage so far, and the ways in which it can end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from agent_common.protocol import Usage
from agent_common.protocol.chunks import FinishReason

from .egress_meter import TurnEgress

Status = Literal["complete", "failed", "timeout", "cancelled"]
ERROR_STATUSES: tuple[Status, ...] = ("failed", "timeout")
UNPRICED = "unpriced_model"
DEFAULT_MAX_OUTPUT = 8192
"""Output tokens that nearly every model can give in one answer."""


@dataclass(frozen=True, slots=True)
class TurnLimits:
    """The limits of a turn. Chats and tasks differ only here and in the result contract."""

    steps: int
    seconds: float
    """Running time; time in the queue does not count."""
    tokens: int | None = None
    tokens_before: int = 0
    """Tokens that were spent elsewhere and count against the budget."""
    cost_usd: float | None = None
    cost_before: float = 0.0
    price_needed: bool = False
    """The cost limit was set explicitly, so only models with a known price may be called."""
    max_output: int | None = None
    """The model's own maximum of output tokens per answer; None: unknown."""
    answer_tokens: int | None = None
    """Maximum output tokens per answer; None: the model's own maximum."""
    retries: int = 0
    """Further attempts after a transient failure that the model client's own retries did not overcome."""
    attempts: int | None = None
    """Attempts of the model client per model call; None: its default."""
    calls: int | None = None
    """Maximum tool calls; None: limited by the steps alone."""
    egress: int | None = None
    """Maximum bytes that tools may send out of the workspace; None: no limit."""

    def within(
        self,
        *,
        seconds: float | None = None,
        tokens: int | None = None,
        calls: int | None = None,
        egress: int | None = None,
    ) -> TurnLimits:
        """Return a copy with each limit reduced to at most the given one. None leaves a limit as it is, except
        `egress`, which is replaced."""
        return replace(
            self,
            seconds=min(self.seconds, seconds) if seconds is not None else self.seconds,
            tokens=tokens if self.tokens is None else min(self.tokens, tokens or self.tokens),
            calls=calls if self.calls is None else min(self.calls, calls if calls is not None else self.calls),
            egress=egress,
        )

    def at_most(self, steps: int | None) -> TurnLimits:
        """Return a copy with at most that many steps. None: no change."""
        return self if steps is None or steps >= self.steps else replace(self, steps=steps)


@dataclass(frozen=True, slots=True)
class TurnOutcome:
    """The end of a turn (docs/protocols/task.md#how-it-ends)."""

    status: Status
    finish_reason: FinishReason | Literal["abort"]
    error_code: str | None = None
    error: str | None = None
    limit: str | None = None
    retry_after: float | None = None
    """Seconds to wait, as the model's provider asked."""

    @property
    def in_error(self) -> bool:
        """Whether the turn failed. The session's queue then pauses until the next message."""
        return self.status in ERROR_STATUSES

    def json(self) -> dict[str, Any]:
        fields = {name: getattr(self, name) for name in self.__slots__}
        return {name: value for name, value in fields.items() if value is not None}


INTERNAL_FAILURE = TurnOutcome("failed", "error", "internal_error", "internal error in the runtime; see its log")
"""The outcome after a bug in the runtime."""


STORE_FAILURE = TurnOutcome(
    "failed", "error", "store_unavailable", "the database cannot be written: the disk is full or broken"
)
"""The outcome of a turn that could not be recorded on disk."""


class LimitReached(Exception):
    """Raised inside the loop to end the turn; carries the outcome."""

    def __init__(self, outcome: TurnOutcome) -> None:
        super().__init__(outcome.error)
        self.outcome = outcome


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
