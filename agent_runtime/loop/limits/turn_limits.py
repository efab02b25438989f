"""The limits of a turn."""

from __future__ import annotations

from dataclasses import dataclass, replace


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
