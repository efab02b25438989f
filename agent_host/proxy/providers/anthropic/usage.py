"""Convert Anthropic's usage, whose counts do not overlap, to OpenAI's, whose counts do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agent_common.completions import cache_written, token_count

from ...json_access import as_object

STOP_REASONS = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "pause_turn": "stop",
    "max_tokens": "length",
    "tool_use": "tool_calls",
    "refusal": "content_filter",
}
"""Those that have a name in OpenAI's shape. `model_context_window_exceeded` keeps its own."""


def finish_reason(stop_reason: object, *, called: bool) -> str:
    """Return the finish reason of an answer. `called`: it has calls, for one that does not say why it ended."""
    if not stop_reason:
        return "tool_calls" if called else "stop"
    return STOP_REASONS.get(str(stop_reason), str(stop_reason))


def openai_usage(usage: Mapping[str, Any]) -> dict[str, Any]:
    """Return OpenAI's `usage` object: cached tokens are part of the prompt, thinking is part of the completion."""
    read = token_count(usage.get("cache_read_input_tokens"))
    written = cache_written(usage)
    prompt = token_count(usage.get("input_tokens")) + read + written
    completion = token_count(usage.get("output_tokens"))
    thinking = min(token_count(as_object(usage.get("output_tokens_details")).get("thinking_tokens")), completion)
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "prompt_tokens_details": {"cached_tokens": read, "cache_write_tokens": written},
        "completion_tokens_details": {"reasoning_tokens": thinking},
    }
