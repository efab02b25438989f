"""Convert failures of model calls to ModelError, in one place."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from agent_common.json_reader import JsonLimits, read_json
from agent_common.net import TransportFault
from agent_common.protocol import is_object

from ..context import overflow_of
from ..errors import ModelError

_OVERFLOW_CODES = {"context_length_exceeded", "string_above_max_length", "request_too_large"}
_OVERFLOW_WORDS = (
    *("context length", "context window", "maximum context", "too many tokens"),
    "context size",  # llama.cpp
    "context limit",  # Anthropic, with the room for the reply
    "prompt is too long",  # Anthropic
    "input is too long",  # Bedrock
    "input length",  # DashScope, SGLang
    "maximum prompt length",  # xAI
    "model token limit",  # Moonshot
)
_PROMPT_WORDS = ("input", "prompt", "messages")
"""Words for the input. An error about sizes without them concerns the answer."""
_TRANSIENT = {408, 409, 425, 429, 500, 502, 503, 504, 529}
_RATE_CODES = {"rate_limit_exceeded", "rate_limit_error", "too_many_requests", "429"}
_QUOTA_CODES = {"insufficient_quota", "billing_hard_limit_reached", "billing_error"}
_QUOTA_WORDS = ("credit balance is too low", "insufficient balance", "insufficient credits")
_UNKNOWN_MODEL = re.compile(
    r"\bmodel\b.{0,200}\b(not found|does not exist|not exist)|\b(no|no such|invalid|unknown|not a valid) model\b",
    re.IGNORECASE | re.DOTALL,
)
_BASE_URL = (
    "if its base URL is wrong: it must end before /chat/completions, often in /v1 (the host's OPENAI_BASE_URL"
    " or base_url, or AGENT_LLM_BASE_URL)"
)
_DETAIL_CHARACTERS = 500
ERROR_BODY_LIMITS = JsonLimits(max_bytes=64 * 1024)
"""A larger body is treated as plain text."""


def from_response(status: int, headers: Mapping[str, str], body: bytes) -> ModelError:
    """Return the error for an HTTP status."""
    message, code = parse_error_body(body)
    text = f"the model endpoint answered {status}: {message}"
    if status in (401, 403) or code == "provider_auth":
        return ModelError(text, code="model_auth")
    worded = status != 429 and _is_overflow(message)  # 429 means: per minute
    if status == 413 or code in _OVERFLOW_CODES or worded:
        return ModelError(text, code="context_overflow")
    wait = _retry_after(headers.get("retry-after"))
    if status == 402 or _is_quota(code, message):
        return ModelError(text, code="model_quota", retry_after=wait)
    if status in _TRANSIENT:
        kind = "model_rate_limited" if status == 429 or code in _RATE_CODES else "model_unavailable"
        return ModelError(text, code=kind, transient=True, retry_after=wait)
    if code == "model_not_found" or (status in (400, 404, 422) and _UNKNOWN_MODEL.search(message)):
        return ModelError(text, code="unknown_model")
    if status in (404, 405):
        return ModelError(f"{text}; {_BASE_URL}", code="model_config")
    if status in (400, 415, 422):
        return ModelError(text, code="model_config")
    return ModelError(text)


def from_event(error: Any) -> ModelError:
    """Return the error for one that a provider reports inside its stream."""
    body = error if is_object(error) else {"message": str(error)}
    message, code = str(body.get("message") or error)[:_DETAIL_CHARACTERS], _code(body)
    if code == "provider_auth":
        return ModelError(message, code="model_auth")
    if code in _OVERFLOW_CODES or _is_overflow(message):
        return ModelError(message, code="context_overflow")
    if _is_quota(code, message):
        return ModelError(message, code="model_quota")
    kind = "model_rate_limited" if code in _RATE_CODES else "model_unavailable"
    return ModelError(f"the model's stream reported an error: {message}", code=kind, transient=True)


def from_transport(fault: TransportFault, url: str, idle_seconds: float) -> ModelError:
    """Return the error for a connection that failed."""
    if fault.timed_out:
        return ModelError(f"the model at {url} sent nothing for {idle_seconds:g} s", transient=True)
    return ModelError(f"the model endpoint {url} cannot be reached: {fault.message}", transient=True)


def parse_error_body(body: bytes) -> tuple[str, str]:
    """Return message and code of an OpenAI-style error body; any other body is the message, without a code."""
    try:
        parsed: Any = read_json(body, ERROR_BODY_LIMITS)
    except ValueError:
        return body[:_DETAIL_CHARACTERS].decode(errors="replace").strip() or "no reason given", ""
    error = parsed.get("error", parsed) if is_object(parsed) else parsed
    if not is_object(error):
        return str(error)[:_DETAIL_CHARACTERS], ""
    return str(error.get("message") or error.get("detail") or error)[:_DETAIL_CHARACTERS], _code(error)


def _code(error: dict[str, Any]) -> str:
    """Return the code of an error; some providers have it only in `type`."""
    code = error.get("code")
    return str(error.get("type") if code is None else code)


def _is_quota(code: str, message: str) -> bool:
    return code in _QUOTA_CODES or any(words in message.lower() for words in _QUOTA_WORDS)


def _is_overflow(message: str) -> bool:
    """Return whether the message says that the prompt is too long, in words or by both sizes."""
    worded = message.lower()
    if any(words in worded for words in _OVERFLOW_WORDS):
        return True
    overflow = overflow_of(message) if any(word in worded for word in _PROMPT_WORDS) else None
    return overflow is not None and overflow.limit is not None and overflow.actual is not None


def _retry_after(value: str | None) -> float | None:
    """Return the seconds to wait; the header has a number or a date. None if it is missing or invalid."""
    if not value:
        return None
    try:
        seconds = float(value)
        return None if math.isinf(seconds) else max(0.0, seconds)
    except ValueError:
        pass
    try:
        when = parsedate_to_datetime(value)
    except ValueError:
        return None
    if when.tzinfo is None:  # `-0000` and no zone at all are UTC too
        when = when.replace(tzinfo=UTC)
    return max(0.0, (when - datetime.now(tz=UTC)).total_seconds())
