"""Ask for thinking in the form that the model's generation takes."""

from __future__ import annotations

from typing import Any

from ...catalog.claude import ClaudeGeneration
from ...json_access import as_object
from .conversation import Conversation

_SHARES = {"minimal": 0.1, "low": 0.2, "medium": 0.5, "high": 0.8, "xhigh": 0.9, "max": 0.95}
"""How much of `max_tokens` an older model may think."""
_MIN_BUDGET = 1024
_SUMMARIZED = {"type": "adaptive", "display": "summarized"}
BINDING_BETA = "thinking-binding-controls-2026-08-01"
"""Value of `anthropic-beta` for requests with a `block_binding`."""


def thinking_fields(
    payload: dict[str, Any],
    request: dict[str, Any],
    generation: ClaudeGeneration,
    effort: str | None,
    conversation: Conversation,
) -> dict[str, Any]:
    """Return `thinking` and `output_config`. `effort` is the catalog's, for requests that say nothing."""
    if request.get("tool_choice", {}).get("type") in ("any", "tool"):
        return {}  # Claude does not think when it must call a tool
    given = as_object(payload.get("thinking"))
    reasoning = as_object(payload.get("reasoning"))
    asked: Any = payload.get("reasoning_effort") or reasoning.get("effort") or effort
    if given:
        fields = {"thinking": given}
    elif generation.adaptive:
        fields = _adaptive(request, generation, asked)
    else:
        fields = _budget(request["max_tokens"], asked, reasoning.get("max_tokens"))
    # Calls of another model have no thinking that could be sent back; with a budget Claude insists on it.
    if as_object(fields.get("thinking")).get("type") == "enabled" and conversation.lacks_thinking:
        return {}
    return fields


def pass_over_bound_thinking(request: dict[str, Any]) -> None:
    """Have Claude drop the thinking that is bound to a conversation of which something has changed."""
    thinking = request.get("thinking", {"type": "adaptive"})  # what a model does that refuses such thinking
    forced = request.get("tool_choice", {}).get("type") in ("any", "tool")
    if not forced and thinking.get("type") in ("adaptive", "enabled"):
        request["thinking"] = {**thinking, "block_binding": {"prefix_mismatch_behavior": "drop_block"}}


def _adaptive(request: dict[str, Any], generation: ClaudeGeneration, asked: Any) -> dict[str, Any]:
    if asked in (None, "none"):
        thinks = generation.thinks and asked is None
        return {"thinking": _SUMMARIZED} if thinks else _effort(request, "low") if generation.thinks else {}
    return {"thinking": _SUMMARIZED, **_effort(request, "low" if asked == "minimal" else str(asked))}


def _effort(request: dict[str, Any], effort: str) -> dict[str, Any]:
    return {"output_config": {**request.get("output_config", {}), "effort": effort}}


def _budget(limit: int, asked: Any, most: Any) -> dict[str, Any]:
    share = _SHARES.get(str(asked))
    budget = most if isinstance(most, int) else round(limit * share) if share else 0
    budget = max(budget, _MIN_BUDGET) if budget else 0
    return {"thinking": {"type": "enabled", "budget_tokens": budget}} if 0 < budget < limit else {}
