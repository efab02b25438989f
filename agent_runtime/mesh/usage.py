"""Convert a provider's usage report to our five buckets, and compute its cost
(docs/explanation/design.md#tokens-are-counted-in-five-buckets)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from agent_common.protocol import Pricing, Usage

MAX_TOKENS = 2**40
"""More than any call can use. Larger numbers from a provider would overflow the columns of sums."""


def usage_of(report: Mapping[str, Any]) -> Usage:
    """Convert OpenAI-style counts, which include cached and reasoning tokens, to our disjoint buckets."""
    prompt, completion = _details(report, "prompt_tokens_details"), _details(report, "completion_tokens_details")
    # DeepSeek and Anthropic use their own names for counts that OpenAI nests.
    cache_read = _count(prompt.get("cached_tokens")) or _count(report.get("prompt_cache_hit_tokens"))
    cache_write = _count(prompt.get("cache_write_tokens")) or _count(report.get("cache_creation_input_tokens"))
    reasoning = _count(completion.get("reasoning_tokens"))
    return Usage(
        input=max(0, _count(report.get("prompt_tokens")) - cache_read - cache_write),
        output=max(0, _count(report.get("completion_tokens")) - reasoning),
        reasoning=reasoning,
        cache_read=cache_read,
        cache_write=cache_write,
        cost_usd=_cost(report.get("cost_usd")),
    )


def with_cost(usage: Usage, pricing: Pricing | None) -> Usage:
    """Return the usage with its cost, if the provider gave none and the model has a price."""
    if pricing is None or usage.cost_usd is not None:
        return usage
    read = pricing.input if pricing.cache_read is None else pricing.cache_read
    write = pricing.input if pricing.cache_write is None else pricing.cache_write
    generated = (usage.output + usage.reasoning) * pricing.output
    cost = usage.input * pricing.input + usage.cache_read * read + usage.cache_write * write + generated
    return usage.model_copy(update={"cost_usd": cost / 1_000_000})


def _details(report: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = report.get(name)
    return cast("Mapping[str, Any]", found) if isinstance(found, dict) else {}


def _cost(value: Any) -> float | None:
    """Return the cost in US dollars that the mesh reports; None for an invalid value."""
    return value if isinstance(value, int | float) and 0 <= value < float("inf") else None


def _count(value: Any) -> int:
    return min(value, MAX_TOKENS) if type(value) is int and value > 0 else 0
