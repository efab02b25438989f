"""What the finish reasons of providers mean."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, Literal, cast

StopReason = Literal["stop", "length", "content-filter", "tool-calls", "other"]
FAILED: Final = "failed"
"""The answer was broken off by a failure."""
OVERFLOW: Final = "overflow"
"""The window is full."""
NOT_YET = ("", "null", "none")
"""What servers write in place of null while the answer goes on."""
Meaning = StopReason | Literal["failed", "overflow"]

_MEANINGS: dict[Meaning, tuple[str, ...]] = {
    "stop": ("stop", "end_turn", "eos", "eos_token", "stop_sequence", "complete", "completed", "finish", "finished"),
    "length": (
        *("length", "max_tokens", "max_output_tokens", "max_new_tokens", "max_completion_tokens"),
        *("model_length", "max_length", "token_limit", "time_limit"),
    ),
    "content-filter": (
        *("content_filter", "content_filtered", "content-filter", "sensitive", "safety", "refusal", "recitation"),
        *("blocklist", "prohibited_content", "spii", "guardrail_intervened", "blocked", "flagged", "moderation"),
        *("error_toxic", "image_safety", "image_prohibited_content", "image_recitation"),
        *("content_policy", "policy_violation"),
    ),
    "tool-calls": ("tool_calls", "tool_call", "tool_use", "tool-calls", "function_call"),
    FAILED: (
        *("error", "network_error", "insufficient_system_resource", "abort", "aborted", "cancelled", "canceled"),
        *("failed", "failure", "timeout", "internal_error", "server_error", "engine_error", "interrupted"),
        *("malformed_function_call", "malformed_response", "unexpected_tool_call", "invalid_tool_call"),
        *("malformed_tool_use", "malformed_model_output", "missing_thought_signature", "too_many_tool_calls"),
        *("upstream_error", "server_cancelled", "provider_error", "model_error", "overloaded", "rate_limit"),
        "service_unavailable",
    ),
    OVERFLOW: (
        *("model_context_window_exceeded", "context_window_exceeded", "context_length_exceeded"),
        *("context_overflow", "max_context_length", "input_too_long", "context_length"),
        "error_limit",  # Cohere
    ),
}
_BY_REASON: dict[str, Meaning] = {reason: meaning for meaning, reasons in _MEANINGS.items() for reason in reasons}
_LASTING = ("length", "content-filter", FAILED, OVERFLOW)
_BETWEEN_PARTS = re.compile(r"[:.]")
_BY_WORD: tuple[tuple[re.Pattern[str], Meaning], ...] = (
    (re.compile(r"context|input.?(?:length|too)"), OVERFLOW),
    (re.compile(r"filter|safety|moderat|policy|sensitive|blocked|prohibited|model_armor"), "content-filter"),
    (re.compile(r"error|fail|abort|cancel|timeout|timed?_?out|overload|unavailable|exception|interrupt"), FAILED),
    (re.compile(r"terminat|preempt|rate_?limit|quota|insufficient|resource|deadline|malformed"), FAILED),
    (re.compile(r"out_of_memory|connection|disconnect"), FAILED),
)
"""Words in reasons that are not known -> what they mean; the first that fits counts."""


@lru_cache(maxsize=64)
def stop_reason(finish_reason: str) -> Meaning:
    """Return the meaning of a finish reason; `other` if it says nothing. Of several parts, as in `error: abort`, the
    last known one counts; of one that is not known its words."""
    whole = finish_reason.strip().lower().removeprefix("finish_reason_")
    parts = (whole, *(part.strip() for part in reversed(_BETWEEN_PARTS.split(whole))))
    known: list[Meaning] = [_BY_REASON[part] for part in parts if part in _BY_REASON]
    worded: list[Meaning] = [means for word, means in _BY_WORD if word.search(whole)]
    return (*known, *worded, "other")[0]


def latest_reason(earlier: str | None, later: str) -> str:
    """Return the finish reason of an answer that gives several: a plain end, as a gateway writes one of its own, or a
    word that says nothing, takes back none that the answer was cut, refused or broken off."""
    ended_well = earlier is None or stop_reason(earlier) not in _LASTING
    return later if ended_well or stop_reason(later) not in ("stop", "other") else cast("str", earlier)
