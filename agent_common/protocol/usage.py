"""Token accounting (docs/explanation/design.md#tokens-are-counted-in-five-buckets)."""

from __future__ import annotations

from .base import Peer

BYTES_PER_TOKEN = 4
"""Approximate size of a token."""


class Usage(Peer):
    """Tokens of one or more model calls. The buckets do not overlap; their sum is the total."""

    input: int = 0
    """Prompt tokens that were neither read from nor written to a cache."""
    output: int = 0
    """Generated tokens without reasoning tokens."""
    reasoning: int = 0
    """Generated reasoning tokens."""
    cache_read: int = 0
    """Prompt tokens served from the provider's cache."""
    cache_write: int = 0
    """Prompt tokens the provider stored in its cache."""
    cost_usd: float | None = None
    """Price in US dollars; null if the model has no known price."""

    @classmethod
    def estimated_from_bytes(cls, sent: int, received: int) -> Usage:
        """Estimate the usage of a call whose provider reported none, from the bytes in each direction."""
        return cls(input=-(-sent // BYTES_PER_TOKEN), output=-(-received // BYTES_PER_TOKEN))

    @property
    def total(self) -> int:
        """Sum of the five buckets."""
        return self.input + self.output + self.reasoning + self.cache_read + self.cache_write

    def plus(self, other: Usage) -> Usage:
        """Return the sum. Its cost is None if either part has tokens and no known cost."""
        return Usage(
            input=self.input + other.input,
            output=self.output + other.output,
            reasoning=self.reasoning + other.reasoning,
            cache_read=self.cache_read + other.cache_read,
            cache_write=self.cache_write + other.cache_write,
            cost_usd=_add_costs(self, other),
        )

    def minus(self, other: Usage) -> Usage:
        """Return the usage since `other`, an earlier state of the same sum."""
        return Usage(
            input=self.input - other.input,
            output=self.output - other.output,
            reasoning=self.reasoning - other.reasoning,
            cache_read=self.cache_read - other.cache_read,
            cache_write=self.cache_write - other.cache_write,
            cost_usd=None if self.cost_usd is None else self.cost_usd - (other.cost_usd or 0.0),
        )


def _add_costs(left: Usage, right: Usage) -> float | None:
    unknown = any(part.cost_usd is None and part.total for part in (left, right))
    known = [part.cost_usd for part in (left, right) if part.cost_usd is not None]
    return None if unknown or not known else sum(known)
