"""Read a provider's error body, and say it in OpenAI's shape."""

from __future__ import annotations

from typing import Any

from pydantic_core import to_json

from agent_common.completions import read_error_body
from agent_common.json_reader import INLINE_BYTES, JsonLimits, read_json

from ...errors import ModelError, ProviderFailed
from ...http import openai_error
from ..json_access import as_object
from ..providers.http import OPENAI_CODES

MOST_QUOTED = 500
"""Characters of the provider's message that our error quotes."""
_LIMITS = JsonLimits(max_bytes=INLINE_BYTES)


def error_code(body: bytes) -> str | None:
    """Return the error code in the provider's body, or None."""
    error = _error(body)
    code = error.get("code") or error.get("type")
    return str(code)[:100] if code else None


def error_text(body: bytes) -> str:
    """Return the error message in the provider's body, or its beginning if it has none."""
    message = _error(body).get("message")
    return message[:MOST_QUOTED] if isinstance(message, str) else quoted(body)


def is_openai_error(body: bytes) -> bool:
    return isinstance(_error(body).get("message"), str)


def as_openai_error(status: int, body: bytes, meant: ModelError) -> bytes:
    """Return the error in OpenAI's shape, with the provider's words where its body has some. The body itself is kept
    beside it, because the agent reads codes and places from it."""
    report = read_error_body(body)
    text = report.message if report.details and report.words else f"the provider answered {status}: {quoted(body)}"
    own_codes = (one["code"] for one in report.details if isinstance(one.get("code"), str))
    error = ProviderFailed(text, code=OPENAI_CODES.get(meant.code) or next(own_codes, ProviderFailed.code))
    error.status = status
    error.extra = {"param": report.param or None}
    given = {"details": report.details[0]} if report.details else {}
    return to_json(openai_error(error) | given)


def quoted(body: bytes) -> str:
    """Return the beginning of a body, as a literal."""
    return repr(body[: 4 * MOST_QUOTED].decode("utf-8", "replace")[:MOST_QUOTED])


def _error(body: bytes) -> dict[str, Any]:
    """Return the error object of OpenAI's shape; empty if the body has another shape."""
    try:
        return as_object(as_object(read_json(body, _LIMITS)).get("error"))
    except ValueError:
        return {}
