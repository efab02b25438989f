"""What model calls use: tokens and US dollars."""

from __future__ import annotations

from dataclasses import dataclass

from agent_common.protocol import Usage


@dataclass(frozen=True, slots=True)
class Amount:
    """Tokens of all kinds, and their cost in US dollars as far as it is known."""

    usd: float = 0.0
    tokens: int = 0

    @classmethod
    def of(cls, usage: Usage | None) -> Amount:
        """Return what a call has used; nothing if its provider refused it."""
        return cls() if usage is None else cls(usage.cost_usd or 0.0, usage.total)

    def plus(self, other: Amount) -> Amount:
        return Amount(self.usd + other.usd, self.tokens + other.tokens)

    def minus(self, other: Amount) -> Amount:
        """Return the rest, which is never less than nothing: sums of fractions are not exact."""
        return Amount(max(0.0, self.usd - other.usd), max(0, self.tokens - other.tokens))
