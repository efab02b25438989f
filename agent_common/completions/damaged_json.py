"""Read JSON that was damaged in a way that leaves no doubt about what was meant."""

from __future__ import annotations

import json
from typing import Any

from ..json_reader import JsonLimits, JsonRefused, check_cost, read_json
from .calls.arguments import mend_escapes, replace_lone_surrogates

MAX_LINE_BYTES = 8 * 1024 * 1024
"""Maximum bytes of one line, and of a document."""
EVENT_LIMITS = JsonLimits(max_bytes=MAX_LINE_BYTES, max_values=100_000, refuse_ambiguous=False)
_DAMAGED = ("invalid_json", "invalid_utf8")
"""What another way to read may mend. All else was refused for its cost."""


def read_damaged(text: bytes) -> Any:
    """Parse JSON, if need be with control characters or unknown escapes in its strings, which are kept, and with halves
    of surrogate pairs or of characters, which are replaced, as they cannot be stored. What is no number is null.

    Raises ValueError, JsonRefused with another code than for invalid JSON if it costs too much."""
    try:
        return read_json(text, EVENT_LIMITS)
    except JsonRefused as refusal:
        if refusal.code not in _DAMAGED:
            raise
    characters = text.decode("utf-8", "replace")
    check_cost(characters.encode(), EVENT_LIMITS)
    try:
        try:
            loaded = _load(characters)
        except ValueError:
            loaded = _load(mend_escapes(characters))
        return read_json(replace_lone_surrogates(json.dumps(loaded, ensure_ascii=False)).encode(), EVENT_LIMITS)
    except RecursionError as error:
        raise ValueError(str(error)) from None


def is_json(text: bytes) -> bool:
    """Return whether a text is one document, damaged or not. One that costs too much to read is: its reader says so."""
    try:
        read_damaged(text)
    except JsonRefused as refusal:
        return refusal.code not in _DAMAGED
    except ValueError:
        return False
    return True


def _load(characters: str) -> Any:
    return json.loads(characters, strict=False, parse_constant=lambda _: None)  # noqa: TID251  its cost is checked
