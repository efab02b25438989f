"""Timestamps of the channel: RFC 3339 with a zone. They are kept as text, so that they are passed on unchanged."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Annotated

from pydantic import AfterValidator, WithJsonSchema

_RFC3339 = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,9})?(Z|[+-][0-9]{2}:[0-9]{2})?",
    re.ASCII | re.IGNORECASE,
)
_WRONG = "must be an RFC 3339 time, as in 2026-11-22T02:19:05Z"
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001  formatted without its zone


@lru_cache(64)  # many frames have the same time
def to_rfc3339(ms: int) -> str:
    """Format epoch milliseconds as RFC 3339 UTC, such as `2026-11-22T02:19:05.250Z`."""
    return f"{(_EPOCH + timedelta(milliseconds=ms)).isoformat(timespec='milliseconds')}Z"


@lru_cache(256)
def _is_stamp(text: str) -> str:
    """Return the text. Raises ValueError if it is malformed or has no zone."""
    found = _RFC3339.fullmatch(text)
    if found is None:
        raise ValueError(_WRONG)
    if not found[1]:
        raise ValueError("must name its zone, as in 2026-11-22T02:19:05Z")
    try:
        datetime.fromisoformat(text.upper())
    except ValueError:
        raise ValueError(_WRONG) from None
    return text


Stamp = Annotated[str, AfterValidator(_is_stamp), WithJsonSchema({"type": "string", "format": "date-time"})]
