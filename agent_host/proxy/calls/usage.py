"""What a model call has used and what it costs."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from agent_common.completions import cost_of, read_usage
from agent_common.protocol import Pricing, Usage

from ..json_access import as_object

_USAGE = re.compile(rb'"usage"\s*:\s*\{')
_LONGEST_USAGE = 4096
_MOST_TRIES = 100
_DECODER = json.JSONDecoder()


def priced_usage(report: Mapping[str, Any], pricing: Pricing | None) -> Usage:
    """Return what a provider reports, with the cost if the model has a price. A provider's own cost does not count."""
    usage = read_usage(report)
    return usage.model_copy(update={"cost_usd": cost_of(usage, pricing) if pricing else None})


def find_usage(body: bytes) -> tuple[dict[str, Any], int]:
    """Return the last object named `usage` in a JSON document that is too large to parse, and the position of its `}`.

    The object is empty if there is none. Text of a model cannot match, because quotes in a string are escaped.
    """
    at = len(body)
    for _ in range(_MOST_TRIES):
        at = body.rfind(b'"usage"', 0, at)
        if at < 0:
            break
        found = _USAGE.match(body, at)
        if found is None:
            continue
        try:
            text = body[found.end() - 1 : found.end() + _LONGEST_USAGE].decode("latin-1")
            value, length = _DECODER.raw_decode(text)
        except (ValueError, RecursionError):
            continue
        return as_object(value), found.end() - 2 + length
    return {}, 0
