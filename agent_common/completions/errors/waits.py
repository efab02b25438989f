"""How long a provider asks to wait: in a header, in the body, or in words."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from ...protocol import is_object
from .bodies import ErrorReport

_SPAN = (
    r"(\d{1,12}+(?:\.\d{1,12}+)?)\s*"
    r"(milliseconds?|ms|minutes?|mins?|m|hours?|hrs?|h|seconds?|secs?|s|days?|d)(?![A-Za-z])(?:,|\s{1,3}and\b)?\s*"
)
_DURATION = re.compile(_SPAN, re.IGNORECASE)
_WORDS = re.compile(
    r"(?:try again|retry(?:_after)?|wait|available|allowed in|will (?:be )?reset|resets)\b"
    rf"[^.\d]{{0,40}}?(?:in|after|for|within)?\s*((?:{_SPAN}){{1,4}})",
    re.IGNORECASE,
)
_ONE = re.compile(r"\bin an? (?=second|minute|hour|day)", re.IGNORECASE)
_IN_CHINESE = re.compile(r"(\d{1,6}+(?:\.\d{1,3}+)?)\s?(\u79d2|\u5206\u949f|\u5c0f\u65f6)\u949f?\u540e")
_CHINESE_UNITS = {"\u79d2": 1, "\u5206\u949f": 60, "\u5c0f\u65f6": 3600}
_NUMBER_OR_MOMENT = re.compile(
    r"(?:retry[ _-]?after|(?:try again|will reset|resets) (?:at|on))\W{1,4}"
    r"(\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d{1,9}+)?)?(?:Z|[+-]\d\d:?\d\d)?)?"
    r"|\d{1,15}+(?:\.\d{1,9}+)?+(?!-\d\d-|\s*[A-Za-z]))",
    re.IGNORECASE,
)
"""A date, or a number without a unit."""
_UNITS = (("ms", 0.001), ("milli", 0.001), ("m", 60), ("h", 3600), ("s", 1), ("d", 86_400))
"""What a unit begins with -> its seconds; the first that fits counts."""
_MEMBERS = {
    **dict.fromkeys(("retrydelay", "retry_after", "retry-after", "retryafter", "retry_after_seconds"), 1.0),
    **dict.fromkeys(("retry_after_ms", "retry-after-ms", "retryafterms"), 0.001),
    **dict.fromkeys(("estimated_time", "resets_in_seconds"), 1.0),  # Hugging Face, while it loads a model; OpenAI
    **dict.fromkeys(("reset_seconds", "wait_seconds", "retry_in", "quotaresetdelay"), 1.0),  # the last one is Google's
}
_MOMENTS = ("resets_at", "reset_at", "resetsat", "resetat", "quotaresettimestamp")
_CLOCK = re.compile(
    r"\b(?:in|after) (?:(\d{1,4})[.])?(\d{1,2}):(\d\d):(\d\d)\b(?! ?(?:UTC|GMT|[AP]M)\b)", re.IGNORECASE
)
"""Azure's days, hours, minutes and seconds."""
_SELDOM = ("-day", "-unified-reset")
"""Limits of a day or more, which seldom are the ones that count."""
_RESETS = (
    *("x-ratelimit-reset-requests", "x-ratelimit-reset-tokens", "x-ratelimit-reset", "ratelimit-reset"),
    *("x-ratelimit-reset-requests-minute", "x-ratelimit-reset-tokens-minute"),  # Cerebras, as the next two
    *("x-ratelimit-reset-requests-day", "x-ratelimit-reset-tokens-day", "ratelimitbysize-reset"),  # Mistral
    *("anthropic-ratelimit-requests-reset", "anthropic-ratelimit-tokens-reset"),
    *("anthropic-ratelimit-input-tokens-reset", "anthropic-ratelimit-output-tokens-reset"),
    "anthropic-ratelimit-unified-reset",
)
_LISTED = re.compile(r"\b(?:r|remaining)=(\d{1,15})\W{1,3}(?:t|reset)=(\d{1,15})\b")
"""What is left and the seconds until more is, in the header `ratelimit` of the IETF's drafts."""
_HOUR = 3600
_EPOCH = 1e9
_EPOCH_MS = 1e11
"""A larger number is no duration but a moment, in seconds or milliseconds."""
_BEYOND_COUNT = 1e18
"""No time is that long, nor a moment in nanoseconds that late. An integer of JSON may be larger than any float."""


def wait_of(headers: Mapping[str, str], report: ErrorReport, *, limited: bool) -> float | None:
    """Return the seconds to wait; None if nothing says so. `limited`: the error is about a rate."""
    in_ms = (_until(headers.get(name), 0.001) for name in ("retry-after-ms", "x-ms-retry-after-ms"))
    in_seconds = (retry_after(headers.get(name)) for name in ("retry-after", "x-retry-after"))
    for found in (*in_ms, *in_seconds):
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
    raw = (text for one in report.details if isinstance(text := one.get("raw"), str))
    for text in (report.message, *raw):
        if (seconds := _worded(text)) is not None:
            return seconds
    return _longest_reset(headers) if limited else None


def _worded(text: str) -> float | None:
    """Return the seconds that the words of an error name."""
    text = _ONE.sub("in 1 ", text)
    if (worded := _WORDS.search(text)) is not None:
        return _seconds_in(worded[1])
    if (worded := _CLOCK.search(text)) is not None:
        days, hours, minutes, seconds = (int(number or 0) for number in worded.groups())
        return float(((days * 24 + hours) * 60 + minutes) * 60 + seconds)
    if (worded := _NUMBER_OR_MOMENT.search(text)) is not None:
        return _until(worded[1])
    worded = _IN_CHINESE.search(text)
    return float(worded[1]) * _CHINESE_UNITS[worded[2]] if worded is not None else None


def retry_after(value: str | None) -> float | None:
    """Return the seconds in a Retry-After header, which has a number or a moment. None if it is missing or invalid."""
    if not value:
        return None
    several = [one.strip() for one in value.split(",")]
    if len(several) > 1 and all(one.isdecimal() for one in several):  # of several proxies
        value = max(several, key=float)
    try:
        seconds = float(value)
        return None if math.isinf(seconds) else _from_now(max(0.0, seconds))
    except ValueError:
        pass
    if not _DURATION.sub("", value.strip()):  # `7s`, as some write
        return _seconds_in(value)
    try:
        when = parsedate_to_datetime(value)
    except (ValueError, OverflowError):
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
    """Return the seconds until all limits of a rate begin anew that are used up, as far as that is told; if it is not,
    those of limits of an hour or less."""
    resets = [
        *_resets(headers),
        *((float(seconds), left) for left, seconds in _LISTED.findall(headers.get("ratelimit", ""))),
    ]
    used_up = [seconds for seconds, left in resets if left == "0"]
    short = [seconds for seconds, _ in resets if seconds <= _HOUR]
    return max(used_up or short or [seconds for seconds, _ in resets], default=None)


def _resets(headers: Mapping[str, str]) -> Iterator[tuple[float, str]]:
    """Yield the seconds until each limit begins anew, and what is left of it: nothing, if that is not told, but for one
    that seldom counts."""
    for name in _RESETS:
        if (seconds := _until(headers.get(name))) is not None:
            unknown = "" if name.endswith(_SELDOM) else "0"
            yield seconds, headers.get(name.replace("reset", "remaining"), unknown)


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
    """Return the seconds in a number of units, in a text such as `17.42s` or `6m0s`, or in Google's two numbers."""
    if isinstance(value, bool):
        return None
    if is_object(value):
        parts = [_duration(value.get(name, 0), unit) for name, unit in (("seconds", 1.0), ("nanos", 1e-9))]
        return sum(part for part in parts if part is not None) if "seconds" in value else None
    if isinstance(value, int | float):
        return max(0.0, value * unit) if abs(value) < _BEYOND_COUNT else None
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
