"""Convert Anthropic's errors to OpenAI's shape, with the codes that agents know."""

from __future__ import annotations

import re
from typing import Any

from pydantic_core import to_json

from agent_common.completions import from_response, read_error_body
from agent_common.json_reader import JsonLimits, read_json

from ....errors import ProviderFailed
from ...json_access import as_object
from ..http import OPENAI_CODES

_OVERFLOW = re.compile(r"prompt is too long|exceed context limit|input is too long", re.IGNORECASE)
_QUOTA = re.compile(r"credit balance is too low|spend limit|usage limits?\b", re.IGNORECASE)
_STATUSES = {
    "invalid_request_error": 400,
    "billing_error": 402,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "api_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}
_OF_THE_KEY = ("authentication_error", "permission_error")
_BODY_LIMITS = JsonLimits(max_bytes=256 * 1024, max_values=2000, refuse_ambiguous=False)


def openai_error_body(status: int, body: bytes) -> bytes:
    """Return the error in OpenAI's shape: the provider's words, and a code for what it means. Other providers that
    speak Anthropic's API have codes of their own."""
    try:
        error = as_object(as_object(read_json(body, _BODY_LIMITS)).get("error"))
    except ValueError:
        error = {}
    message = str(error.get("message") or (read_error_body(body).message if body else f"HTTP {status}"))
    kind = str(error.get("type") or "api_error")
    meant = OPENAI_CODES.get(from_response(status, {}, body).code)
    code = _code(kind, message) or meant or str(error.get("code") or kind)
    return to_json({"error": {"message": message, "type": kind, "param": _param(message), "code": code}})


def failure(event: dict[str, Any]) -> ProviderFailed:
    """Return the error that an event, or an answer with status 200, holds. It means what its status would."""
    given: Any = event.get("error")
    about = as_object(given)
    message = str(about.get("message") or given or "the provider ended its answer with an error")
    kind = str(about.get("type") or about.get("code") or "provider_error")
    error = ProviderFailed(message, code="provider_auth" if kind in _OF_THE_KEY else _code(kind, message) or kind)
    error.status = _STATUSES.get(kind, error.status)
    return error


def _code(kind: str, message: str) -> str | None:
    """Return the code for an overflow or an empty account, by the words of Anthropic itself."""
    if kind == "request_too_large" or _OVERFLOW.search(message):
        return "context_length_exceeded"
    if kind == "billing_error" or _QUOTA.search(message):
        return "insufficient_quota"
    return None


def _param(message: str) -> Any:
    """Return the field that the words begin with, as in `max_tokens: Field required`."""
    found = re.match(r"([a-z_][a-z0-9_.]*): ", message)
    return found[1] if found else None
