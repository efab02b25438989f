"""What a model call has used and what it costs."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from agent_common.completions import read_usage, with_cost
from agent_common.protocol import Pricing, Usage

from ..json_access import as_object

_USAGE = re.compile(rb'"usage"\s*:\s*\{')
_LONGEST_USAGE = 4096
_MOST_TRIES = 100
_ABSENT = object()
_DECODER = json.JSONDecoder()  # noqa: TID251  reads at most _LONGEST_USAGE


def priced_usage(report: Mapping[str, Any], pricing: Pricing | None) -> Usage:
    """Return what a provider reports, with the cost if the model has a price. A provider's own cost does not count."""
    return with_cost(read_usage(report), pricing, reported=False)


def set_cost(report: dict[str, Any], cost: float | None) -> bool:
    """Write the cost into a report, or remove a provider's own if there is none. Returns whether the report changed."""
    if cost is None:
        return report.pop("cost_usd", _ABSENT) is not _ABSENT
    report["cost_usd"] = cost
    return True


def find_usage(body: bytes) -> tuple[dict[str, Any], slice]:
    """Return the last object named `usage` in a JSON document that is too large to parse, and where it stands.

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
        return as_object(value), slice(found.end() - 1, found.end() - 1 + length)
    return {}, slice(0, 0)
