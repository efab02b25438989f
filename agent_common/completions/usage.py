"""Read what a provider reports about the tokens of a call into our five buckets
(docs/explanation/design.md#tokens-are-counted-in-five-buckets)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, cast

from ..protocol import Pricing, Usage, is_object

WRAPPERS = ("data", "result", "output")
"""Members in which some gateways put an answer as a whole."""
MAX_TOKENS = 2**40
"""More than any call can use. Larger numbers would overflow the columns of sums."""


_SHORT = 16
"""Tokens of an answer that may well be counted as none, such as events that only begin and end a stream."""


def find_report(event: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the report in an event or a whole answer, wherever the provider has put it. One that counts nothing is
    none."""
    for location in _places(event):
        if is_object(location) and _counts_something(location):
            return location
    return None


def _places(event: Mapping[str, Any]) -> Iterator[Any]:
    yield event.get("usage")
    choices = event.get("choices")
    for choice in cast("list[Any]", choices) if isinstance(choices, list) else ():
        if is_object(choice):
            yield choice.get("usage")
            for name in ("delta", "message"):
                inner = choice.get(name)
                yield inner.get("usage") if is_object(inner) else None
    for name in ("x_groq", "response", "message", *WRAPPERS):
        inner = event.get(name)
        yield inner.get("usage") if is_object(inner) else None


def _counts_something(report: Mapping[str, Any]) -> bool:
    return _first(report, *_PROMPT, *_COMPLETION) > 0 or read_usage(report).total > 0


def joined_report(earlier: dict[str, Any] | None, later: dict[str, Any]) -> dict[str, Any]:
    """Return the last report of an answer, with the prompt's counts of the one before if it counts the answer only:
    some gateways report each where it is known."""
    if earlier is None or _first(later, *_PROMPT):
        return later
    answers = {name: value for name, value in later.items() if not name.startswith((*_OF_PROMPT, "total"))}
    return {name: value for name, value in earlier.items() if name.startswith(_OF_PROMPT)} | answers


_PROMPT = ("prompt_tokens", "input_tokens", "prompt_cache_hit_tokens", "cache_read_input_tokens")
_OF_PROMPT = ("prompt", "input", "cache")
"""What the names of a prompt's counts begin with."""
_COMPLETION = ("completion_tokens", "output_tokens", "reasoning_tokens")


def read_usage(report: Mapping[str, Any]) -> Usage:
    """Convert a report to disjoint buckets. OpenAI's counts include cached tokens in the prompt and reasoning in the
    completion; counts that contradict this stand beside each other. What only the total counts is reasoning too: Gemini
    thinks so. No number of a report is trusted to be one."""
    prompt = _first(report, "prompt_tokens", "input_tokens")
    details = _details(report, "prompt", "input")
    read = (
        _first(details, "cached_tokens", "cache_read_tokens", "cache_read_input_tokens")
        or _first(report, "prompt_cache_hit_tokens", "cache_read_input_tokens", "cached_tokens", "num_cached_tokens")
    )  # fmt: skip
    written = (
        _first(details, "cache_write_tokens", "cache_creation_tokens")
        or cache_written(details)
        or _first(report, "cache_write_tokens")
        or cache_written(report)
    )  # fmt: skip
    completion = _first(report, "completion_tokens", "output_tokens")
    reasoning = _first(_details(report, "completion", "output"), "reasoning_tokens") or _first(
        report, "reasoning_tokens"
    )
    total = _first(report, "total_tokens")
    cached = read + written
    generated = {completion, completion + reasoning}
    cache_beside = cached > prompt or (bool(cached) and total - prompt - cached in generated)
    sent = prompt + cached if cache_beside else prompt
    reasoning_beside = reasoning > completion or (bool(reasoning) and total == sent + completion + reasoning)
    hidden = total - sent - completion
    if prompt and hidden > 0 and not reasoning and hidden not in (read, written, cached):
        reasoning = hidden
        reasoning_beside = True
    return Usage(
        input=prompt if cache_beside else prompt - cached,
        output=completion if reasoning_beside else completion - reasoning,
        reasoning=reasoning,
        cache_read=read,
        cache_write=written,
        cost_usd=_cost(report.get("cost_usd")),
    )


def with_answer(usage: Usage, tokens: int) -> Usage:
    """Return what a provider reports, with an estimate of the answer if it counts none of one that was long."""
    if usage.output or usage.reasoning or tokens <= _SHORT:
        return usage
    return usage.model_copy(update={"output": min(tokens, MAX_TOKENS)})


def with_cost(usage: Usage, pricing: Pricing | None, *, reported: bool) -> Usage:
    """Return the usage with its cost: if `reported`, the one that it came with; else that of the price; null if neither
    is known. Every cost of the product is made here."""
    cost = usage.cost_usd if reported else None
    if cost is None and pricing is not None:
        cost = cost_of(usage, pricing)
    return usage if cost == usage.cost_usd else usage.model_copy(update={"cost_usd": cost})


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


def cache_written(report: Mapping[str, Any]) -> int:
    """Return what Anthropic's counts say was written to the cache, as one or by how long it is kept."""
    kept = report.get("cache_creation")
    by_time = sum(token_count(count) for count in kept.values()) if is_object(kept) else 0
    return _first(report, "cache_creation_input_tokens") or by_time


def _details(report: Mapping[str, Any], *kinds: str) -> Mapping[str, Any]:
    """Return the details of a count. Of several reports of them, what is not zero counts."""
    joined: dict[str, Any] = {}
    for kind in kinds:
        if is_object(found := report.get(f"{kind}_tokens_details")):
            joined = {**found, **{name: value for name, value in joined.items() if value}}
    return joined


def _first(report: Mapping[str, Any], *names: str) -> int:
    """Return the first of these counts that is not zero."""
    for name in names:
        if name in report and (count := token_count(report[name])):
            return count
    return 0


def token_count(value: Any) -> int:
    """Return the tokens in a member of a report; 0 if it is no count."""
    if isinstance(value, float) and value.is_integer():  # some gateways write all numbers so
        value = int(value)
    return min(value, MAX_TOKENS) if type(value) is int and value > 0 else 0


def _cost(value: Any) -> float | None:
    """Return the cost in US dollars that the mesh reports; None for an invalid value."""
    return value if type(value) in (int, float) and 0 <= value < float("inf") else None
