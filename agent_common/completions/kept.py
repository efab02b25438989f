"""Members of an answer that we do not know: kept as the provider gave them, because it may want to see them again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
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


MAX_MERGED_BYTES = 8 * 1024 * 1024
"""Most bytes of all such members together, in all pieces. A member that goes on beyond it is not kept at all."""


@dataclass(slots=True)
class _GrowingText:
    """A text that comes in pieces. Put together with each piece, it would be copied as often."""

    pieces: list[str]


class KeptFields:
    """Puts such members together from the pieces of an answer."""

    __slots__ = ("_known", "_size")

    def __init__(self) -> None:
        self._known: dict[str, Any] = {}
        self._size = 0

    def merge(self, given: Mapping[str, Any]) -> None:
        """Add members to those that came before. Members that say nothing add nothing."""
        if self._size <= MAX_MERGED_BYTES:
            self._size += len(to_json(given))
        if self._size > MAX_MERGED_BYTES:
            for name in given:  # cut it would be wrong
                self._known.pop(name, None)
        else:
            _merge(self._known, given)

    @property
    def fields(self) -> dict[str, Any]:
        """The members so far."""
        return {name: _whole(value) for name, value in self._known.items()}


def _whole(value: Any) -> Any:
    """Return a value with its texts put together."""
    if isinstance(value, _GrowingText):
        return "".join(value.pieces)
    if isinstance(value, list):
        return [_whole(one) for one in cast("list[Any]", value)]
    return {name: _whole(one) for name, one in value.items()} if is_object(value) else value


def _merge(known: dict[str, Any], given: Mapping[str, Any]) -> None:
    for name, value in given.items():
        if value is None or value in ("", [], {}):
            continue
        before = known.get(name)
        if is_object(before) and is_object(value):
            _merge(before, value)
        elif isinstance(before, list) and isinstance(value, list):
            for entry in cast("list[Any]", value):
                _add_entry(cast("list[Any]", before), entry)
        elif is_object(value):
            known[name] = {}
            _merge(known[name], value)
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
        before = last.get(name)
        if value is None:
            last.setdefault(name, None)
        elif name in _GROWING and isinstance(value, str) and isinstance(before, str):
            last[name] = _GrowingText([before, value])
        elif name in _GROWING and isinstance(value, str) and isinstance(before, _GrowingText):
            before.pieces.append(value)
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
        size = len(to_json({name: value}))
        reasoning = name.startswith(_REASONING)
        if size <= left[reasoning]:
            kept[name] = value
            left[reasoning] -= size
    return kept
