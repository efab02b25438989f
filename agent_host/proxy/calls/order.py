"""A checked request for a model call, and the most that the call can use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agent_common.completions import cost_of
from agent_common.protocol import Pricing, Usage

from ...budgets import CallOrigin, Reserve
from .fallbacks import Attempt

DEFAULT_OUTPUT = 32_768
"""Tokens that are reserved for an answer which neither the request nor the catalog limits."""
_LIMITS = ("max_completion_tokens", "max_tokens")
WHOLE_NUMBERS = (*_LIMITS, "n")
"""Members by which the reserve of a call is counted. Providers take `16.0` and `"16"` for a number too."""
_MOST_TOKENS = 10**9


@dataclass(frozen=True, slots=True)
class ModelCallOrder:
    """A checked request: its caller, and the call to make first."""

    origin: CallOrigin
    request_id: str
    first: Attempt
    size: int
    """Size of the request in bytes."""
    wanted_output: int | None
    """Most tokens of each of its answers, if the request limits them."""
    answers: int
    """How many answers it asks for."""


def wanted_output(payload: Mapping[str, Any]) -> int | None:
    """Return the most tokens that a request asks for in each answer; None if it has no limit."""
    limit = max((given for name in _LIMITS if type(given := payload.get(name)) is int), default=None)
    return None if limit is None else max(0, limit)


def wanted_answers(payload: Mapping[str, Any]) -> int:
    """Return how many answers a request asks for."""
    return given if type(given := payload.get("n")) is int and given > 0 else 1


def most_output(order: ModelCallOrder, attempt: Attempt) -> int:
    """Return the most tokens that all answers of the call can have."""
    if attempt.call.operation != "chat":
        return 0
    each = order.wanted_output or attempt.model.max_output_tokens or DEFAULT_OUTPUT
    return min(each * order.answers, _MOST_TOKENS)


def reserve_of(order: ModelCallOrder, attempt: Attempt, now: int) -> Reserve:
    """Return the most that the call can use: no token is less than a byte, and a prompt no longer than the window."""
    model = attempt.model
    output = most_output(order, attempt)
    most_input = min(order.size, model.context_limit or order.size)
    return Reserve(
        origin=order.origin,
        request_id=order.request_id,
        operation=attempt.call.operation,
        model=model.name,
        provider=model.provider,
        upstream_model=model.upstream,
        streamed=attempt.call.streamed,
        started_at=now,
        input=most_input,
        output=output,
        cost_usd=_highest_cost(most_input, output, model.pricing) if model.pricing else None,
    )


def _highest_cost(most_input: int, most_output: int, pricing: Pricing) -> float:
    """Return the cost with the dearer of both prices for input: a cache may be written."""
    output = Usage(output=most_output)
    plain = Usage(input=most_input)
    cached = Usage(cache_write=most_input)
    return cost_of(output, pricing) + max(cost_of(plain, pricing), cost_of(cached, pricing))
