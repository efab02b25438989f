"""How long a provider asks to wait: in a header, in the body, or in words."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from .error_bodies import ErrorReport

_SPAN = (
    r"(\d{1,12}+(?:\.\d{1,12}+)?)\s*(milliseconds?|ms|minutes?|mins?|m|hours?|hrs?|h|seconds?|secs?|s)(?![A-Za-z])\s*"
)
_DURATION = re.compile(_SPAN, re.IGNORECASE)
_WORDS = re.compile(
    rf"(?:try again|retry(?:_after)?|wait|available)\b[^.\d]{{0,40}}?(?:in|after|for|within)?\s*((?:{_SPAN}){{1,4}})",
    re.IGNORECASE,
)
_NUMBER_OR_MOMENT = re.compile(
    r"retry[ _-]?after\W{1,4}"
    r"(\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d{1,9}+)?)?(?:Z|[+-]\d\d:?\d\d)?)?"
    r"|\d{1,15}+(?:\.\d{1,9}+)?+(?!-\d\d-|\s*[A-Za-z]))",
    re.IGNORECASE,
)
"""A date, or a number without a unit."""
_UNITS = (("ms", 0.001), ("milli", 0.001), ("m", 60), ("h", 3600), ("s", 1))
"""What a unit begins with -> its seconds; the first that fits counts."""
_MEMBERS = {
    **dict.fromkeys(("retrydelay", "retry_after", "retry-after", "retryafter", "retry_after_seconds"), 1.0),
    **dict.fromkeys(("retry_after_ms", "retry-after-ms", "retryafterms"), 0.001),
    **dict.fromkeys(("estimated_time", "resets_in_seconds"), 1.0),  # Hugging Face, while it loads a model; OpenAI
}
_MOMENTS = ("resets_at", "reset_at", "resetsat", "resetat")
_RESETS = (
    *("x-ratelimit-reset-requests", "x-ratelimit-reset-tokens", "x-ratelimit-reset", "ratelimit-reset"),
    *("anthropic-ratelimit-requests-reset", "anthropic-ratelimit-tokens-reset"),
    *("anthropic-ratelimit-input-tokens-reset", "anthropic-ratelimit-output-tokens-reset"),
)
_EPOCH, _EPOCH_MS = 1e9, 1e11
"""A larger number is no duration but a moment, in seconds or milliseconds."""


def wait_of(headers: Mapping[str, str], report: ErrorReport, *, limited: bool) -> float | None:
    """Return the seconds to wait; None if nothing says so. `limited`: the error is about a rate."""
    for found in (_until(headers.get("retry-after-ms"), 0.001), retry_after(headers.get("retry-after"))):
        if found is not None:
            return found
    for one in report.details:
        for name, value in one.items():
            if (unit := _MEMBERS.get(name.lower())) is not None and (seconds := _until(value, unit)) is not None:
                return seconds
            if name.lower() in _MOMENTS and (seconds := _until(value)) is not None:
                return seconds
        inner = one.get("headers")
        if isinstance(inner, dict) and (seconds := _from_headers(inner, limited=limited)) is not None:  # pyright: ignore[reportUnknownArgumentType]
            return seconds
    if (worded := _WORDS.search(report.message)) is not None:
        return _seconds_in(worded[1])
    if (worded := _NUMBER_OR_MOMENT.search(report.message)) is not None:
        return _until(worded[1])
    return _longest_reset(headers) if limited else None


def retry_after(value: str | None) -> float | None:
    """Return the seconds in a Retry-After header, which has a number or a moment. None if it is missing or invalid."""
    if not value:
        return None
    try:
        seconds = float(value)
        return None if math.isinf(seconds) else _from_now(max(0.0, seconds))
    except ValueError:
        pass
    try:
        when = parsedate_to_datetime(value)
    except ValueError:
        return None
    return _seconds_until(when)


def _seconds_until(when: datetime) -> float:
    if when.tzinfo is None:  # `-0000` and no zone at all are UTC too
        when = when.replace(tzinfo=UTC)
    return max(0.0, (when - datetime.now(tz=UTC)).total_seconds())


def _from_headers(inner: Mapping[str, Any], *, limited: bool) -> float | None:
    """Return the wait in the headers that a gateway passes on inside its body."""
    named = {str(name).lower(): str(value) for name, value in inner.items()}
    if (seconds := retry_after(named.get("retry-after"))) is not None:
        return seconds
    return _longest_reset(named) if limited else None


def _longest_reset(headers: Mapping[str, str]) -> float | None:
    """Return the seconds until all limits of a rate begin anew."""
    return max((seconds for name in _RESETS if (seconds := _until(headers.get(name))) is not None), default=None)


def _until(value: Any, unit: float = 1.0) -> float | None:
    """Return the seconds until a moment: a duration, a number of the clock of Unix, or a date such as RFC 3339 has.
    `unit`: the seconds in one of a number."""
    seconds = _duration(value, unit)
    if seconds is not None:
        return _from_now(seconds)
    if not isinstance(value, str):
        return None
    try:
        when = datetime.fromisoformat(value)
    except ValueError:
        return None
    return _seconds_until(when)


def _from_now(seconds: float) -> float:
    """Return the seconds that a number means: a duration, or the time until a moment."""
    moment = seconds / 1000 if seconds > _EPOCH_MS else seconds
    return max(0.0, moment - time.time()) if moment > _EPOCH else seconds


def _duration(value: Any, unit: float) -> float | None:
    """Return the seconds in a number of units, or in a text such as `17.42s` or `6m0s`."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return max(0.0, value * unit) if math.isfinite(value) else None
    if not isinstance(value, str):
        return None
    if value.strip() and not _DURATION.sub("", value.strip()):
        return _seconds_in(value)
    return _duration(float(value), unit) if re.fullmatch(r"\d+(\.\d+)?", value.strip()) else None


def _seconds_in(words: str) -> float:
    """Return the sum of the times in a text such as `1h2m3s` or `2 minutes`."""
    return sum(
        float(number) * next(seconds for begin, seconds in _UNITS if unit.lower().startswith(begin))
        for number, unit in _DURATION.findall(words)
    )
