"""Errors inside an answer, and what refusals say of a model."""

from __future__ import annotations

import re
from typing import Any

from agent_common.completions import ErrorReport, from_event

from ....errors import ProviderFailed
from ...json_access import as_object

_STATUSES = {
    "model_rate_limited": 429,
    "model_quota": 429,
    "unknown_model": 404,
    **dict.fromkeys(("content_refused", "context_overflow", "model_config"), 400),
}
"""What an error means -> the status that it would have had in the place of an answer."""
_LESSONS = (
    ("include", re.compile(r"encrypted content is not supported|\binclude\b", re.IGNORECASE)),
    ("summary", re.compile(r"reasoning summar(?:y|ies)|reasoning\.summary", re.IGNORECASE)),
)


def failure(event: dict[str, Any]) -> ProviderFailed:
    """Return the error of an event, whose members stand in the event, in `error`, or in its response."""
    response = as_object(event.get("response"))
    about = as_object(response.get("error")) or as_object(event.get("error")) or event
    code = str(about.get("code") or about.get("type") or "provider_error")
    error = ProviderFailed(str(about.get("message") or "the provider ended its answer with an error"), code=code)
    error.status = _STATUSES.get(from_event(about).code, error.status)
    return error


def refused_member(status: int, report: ErrorReport) -> str | None:
    """Return `include` or `summary` if the model has refused that member of ours, else None."""
    if status != 400:
        return None
    words = f"{report.param} {report.message}"
    return next((name for name, pattern in _LESSONS if pattern.search(words)), None)
