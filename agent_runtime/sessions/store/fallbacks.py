"""Which models answered in place of a turn's own, kept in the metadata of its reply."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from agent_common.protocol import Usage, is_object

FALLBACKS = "fallbacks"
"""Metadata key of a reply: one `{model, reason, calls, usage}` for each model that answered in place of its own."""


def read_fallbacks(metadata: Mapping[str, Any]) -> dict[str, Usage]:
    """Return what each of these models has used. Raises ValueError if the metadata has another shape."""
    found: object = metadata.get(FALLBACKS, [])
    if not isinstance(found, list):
        raise ValueError(f"{FALLBACKS} must be a list")
    used: dict[str, Usage] = {}
    for entry in cast("list[object]", found):
        if not is_object(entry) or not isinstance(entry.get("model"), str):
            raise ValueError(f"{FALLBACKS} must name a model each")
        used[entry["model"]] = Usage.model_validate(entry.get("usage", {}))
    return used


def note_fallback(entries: list[dict[str, Any]], model: str, reason: str, usage: Usage) -> list[dict[str, Any]]:
    """Return the entries with one more call of a model; the latest reason counts."""
    none: dict[str, Any] = {"calls": 0, "usage": {}}
    before = next((entry for entry in entries if entry["model"] == model), none)
    spent = Usage.model_validate(before["usage"]).plus(usage)
    entry = {"model": model, "reason": reason, "calls": before["calls"] + 1, "usage": spent.model_dump()}
    return [*(one for one in entries if one["model"] != model), entry]


def apportioned(spent: Mapping[str, Usage], model: str, fallbacks: Mapping[str, Usage]) -> dict[str, Usage]:
    """Return the usage by model, with that of fallbacks taken from `model`, under which it was counted."""
    found = dict(spent)
    for name, usage in fallbacks.items():
        found[model] = found.get(model, Usage()).minus(usage)
        found[name] = found[name].plus(usage) if name in found else usage
    return found
