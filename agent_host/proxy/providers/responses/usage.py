"""Convert usage and the end of an answer."""

from __future__ import annotations

from typing import Any

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
    """Return the `usage` of a chat completion, with the same counts under its names."""
    read, generated = as_object(usage.get("input_tokens_details")), as_object(usage.get("output_tokens_details"))
    return {
        "prompt_tokens": _count(usage, "input_tokens"),
        "completion_tokens": _count(usage, "output_tokens"),
        "total_tokens": _count(usage, "total_tokens"),
        "prompt_tokens_details": {
            "cached_tokens": _count(read, "cached_tokens"),
            "cache_write_tokens": _count(read, "cache_write_tokens"),
        },
        "completion_tokens_details": {"reasoning_tokens": _count(generated, "reasoning_tokens")},
    }


def _count(counts: dict[str, Any], name: str) -> int:
    value = counts.get(name)
    return value if type(value) is int and value > 0 else 0
