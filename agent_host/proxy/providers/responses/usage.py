"""Convert usage and the end of an answer."""

from __future__ import annotations

from typing import Any

from agent_common.completions import read_usage

from ...json_access import as_object

_INCOMPLETE = {"max_output_tokens": "length", "content_filter": "content_filter"}


def finish_reason(response: dict[str, Any], *, called: bool, cut: bool = False) -> str:
    """Return the finish reason of a whole response. `cut`: its event says that it is incomplete."""
    if response.get("status") == "cancelled":
        return "cancelled"
    if cut or response.get("status") == "incomplete":
        why = str(as_object(response.get("incomplete_details")).get("reason") or "length")
        return _INCOMPLETE.get(why, why)
    return "tool_calls" if called else "stop"


def openai_usage(usage: dict[str, Any]) -> dict[str, Any]:
    """Return the `usage` of a chat completion with the same counts, under whichever names they came."""
    read = read_usage(usage)
    prompt = read.input + read.cache_read + read.cache_write
    completion = read.output + read.reasoning
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "prompt_tokens_details": {"cached_tokens": read.cache_read, "cache_write_tokens": read.cache_write},
        "completion_tokens_details": {"reasoning_tokens": read.reasoning},
    }
