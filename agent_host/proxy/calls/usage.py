"""Compute the usage and cost of a model call from the usage that a provider reports in OpenAI's shape."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from agent_common.protocol import Pricing, Usage

from ..json_access import as_object

_MOST = 2**40  # tokens; larger numbers are not counts, and may not fit into a database column
_USAGE = re.compile(rb'"usage"\s*:\s*\{')
_LONGEST_USAGE = 4096
_MOST_TRIES = 100
_DECODER = json.JSONDecoder()  # noqa: TID251  reads at most _LONGEST_USAGE


def read_usage(reported: Mapping[str, Any], pricing: Pricing | None) -> Usage:
    """Convert OpenAI's overlapping counts into five disjoint ones, with the cost if the model has a price.

    OpenAI includes cached tokens in `prompt_tokens` and reasoning in `completion_tokens`. The report is not trusted: a
    missing or invalid number counts as 0, and every count is limited to 0 to 2**40.
    """
    prompt = as_object(reported.get("prompt_tokens_details"))
    completion = as_object(reported.get("completion_tokens_details"))
    # DeepSeek and Anthropic use other names for the fields that OpenAI nests.
    cache_read = _count(prompt, "cached_tokens") or _count(reported, "prompt_cache_hit_tokens")
    cache_write = _count(prompt, "cache_write_tokens") or _count(reported, "cache_creation_input_tokens")
    reasoning = _count(completion, "reasoning_tokens")
    usage = Usage(
        input=max(0, _count(reported, "prompt_tokens") - cache_read - cache_write),
        output=max(0, _count(reported, "completion_tokens") - reasoning),
        reasoning=reasoning,
        cache_read=cache_read,
        cache_write=cache_write,
    )
    return usage.model_copy(update={"cost_usd": cost_of(usage, pricing)}) if pricing else usage


def find_usage(body: bytes) -> tuple[dict[str, Any], int]:
    """Return the last object named `usage` in a JSON document that is too large to parse, and the position of its `}`.

    The object is empty if there is none. Text of a model cannot match, because quotes in a string are escaped.
    """
    at = len(body)
    for _ in range(_MOST_TRIES):
        at = body.rfind(b'"usage"', 0, at)
        if at < 0:
            break
        found = _USAGE.match(body, at)
        if found is None:
            continue
        try:
            text = body[found.end() - 1 : found.end() + _LONGEST_USAGE].decode("latin-1")
            value, length = _DECODER.raw_decode(text)
        except (ValueError, RecursionError):
            continue
        return as_object(value), found.end() - 2 + length
    return {}, 0


def cost_of(usage: Usage, pricing: Pricing) -> float:
    """Return the cost in US dollars. Reasoning is priced as output; an unknown cache price is that of input."""
    cache_read = pricing.input if pricing.cache_read is None else pricing.cache_read
    cache_write = pricing.input if pricing.cache_write is None else pricing.cache_write
    millionths = (
        usage.input * pricing.input
        + (usage.output + usage.reasoning) * pricing.output
        + usage.cache_read * cache_read
        + usage.cache_write * cache_write
    )
    return round(millionths / 1_000_000, 12)


def _count(reported: Mapping[str, Any], key: str) -> int:
    value = reported.get(key)
    return min(max(0, value), _MOST) if isinstance(value, int) and not isinstance(value, bool) else 0
