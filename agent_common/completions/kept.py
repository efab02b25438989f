"""Members of an answer that we do not know: kept as the provider gave them, because it may want to see them again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from pydantic_core import to_json

from ..protocol import is_object

MAX_KEPT_BYTES = 64 * 1024
"""Maximum bytes of what is kept with one part of a message, beside its reasoning."""
MAX_KEPT_REASONING_BYTES = 1024 * 1024
"""Maximum bytes of the reasoning that is kept with it: more than the longest answer of any model. Without it, many
providers refuse the next call of the turn."""
_REASONING = ("reasoning", "thinking")
"""What the members with reasoning begin with."""
_GROWING = frozenset(("text", "thinking", "summary", "reasoning", "content"))
"""Members whose texts come in pieces."""


def merge_fields(known: dict[str, Any], given: Mapping[str, Any]) -> None:
    """Add members to those that came before. Members that say nothing add nothing."""
    for name, value in given.items():
        if value is None or value in ("", [], {}):
            continue
        before = known.get(name)
        if is_object(before) and is_object(value):
            merge_fields(before, value)
        elif isinstance(before, list) and isinstance(value, list):
            for entry in cast("list[Any]", value):
                _add_entry(cast("list[Any]", before), entry)
        elif is_object(value):
            known[name] = {}
            merge_fields(known[name], value)
        elif isinstance(value, list):
            known[name] = []
            for entry in cast("list[Any]", value):
                _add_entry(known[name], entry)
        else:
            known[name] = value


def _add_entry(entries: list[Any], entry: Any) -> None:
    """Add an entry to a list, or to the last entry if it is a further piece of that one."""
    last = entries[-1] if entries else None
    if not is_object(entry) or not is_object(last) or not _is_piece_of(last, entry):
        entries.append(dict(entry) if is_object(entry) else entry)
        return
    for name, value in entry.items():
        if value is None:
            last.setdefault(name, None)
        elif name in _GROWING and isinstance(value, str) and isinstance(last.get(name), str):
            last[name] += value
        else:
            last[name] = value


def _is_piece_of(last: dict[str, Any], entry: dict[str, Any]) -> bool:
    if last.get("type") != entry.get("type") or last.get("index") != entry.get("index"):
        return False
    whole = "data" in entry or last.get("signature")
    return not whole and entry.get("id") in (None, last.get("id"))


def bounded(fields: Mapping[str, Any], limit: int = MAX_KEPT_BYTES) -> dict[str, Any]:
    """Return the members that fit into `limit` bytes, and those with reasoning that fit into theirs, the first ones
    first; none is cut, as it would be wrong then."""
    kept: dict[str, Any] = {}
    left = {True: MAX_KEPT_REASONING_BYTES, False: limit}
    for name, value in fields.items():
        size, reasoning = len(to_json({name: value})), name.startswith(_REASONING)
        if size <= left[reasoning]:
            kept[name] = value
            left[reasoning] -= size
    return kept
