"""Mend the list of tools that a server sends, so that one odd tool does not take the others away.

The protocol package refuses a whole list for one field that it does not expect. So each tool is reduced to what is
used here; what has an obvious meaning is given it, and a tool that cannot be called is left out with its reason.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from .schemas import plain_text

NOT_CACHED: Mapping[str, Any] = {"ttlMs": 0, "cacheScope": "private"}
"""The protocol's defaults for the caching fields of a list."""
_HINTS = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")
_OTHER_NAMES = ("input_schema", "parameters")
"""Names that the APIs of models have for `inputSchema`."""
MAX_REASONS = 100
"""Most tools of a list that are left out with a reason."""
_NAME_LIMIT = 60
"""Most characters of a tool's name in a reason."""

Fields = dict[str, Any]


class _Unusable(Exception):
    """The tool cannot be called, for this reason."""


@dataclass(slots=True)
class LeftOut:
    """The tools of a list that cannot be used: all are counted, and the first have a line with their name and why."""

    count: int = 0
    lines: list[str] = field(default_factory=list[str])

    def add(self, name: str, reason: str) -> None:
        self.count += 1
        if len(self.lines) < MAX_REASONS:
            self.lines.append(f"{name}: {reason}")


def mend_listing(result: Mapping[str, Any], left_out: LeftOut) -> Fields:
    """Return the answer to `tools/list` as the protocol wants it. Adds to `left_out` the tools that cannot be used."""
    cursor = result.get("nextCursor")
    tools: list[Fields] = []
    for at, entry in enumerate(_entries(result.get("tools")), 1):
        try:
            tools.append(_tool(entry))
        except _Unusable as reason:
            left_out.add(_called(entry, at), str(reason))
    found: Fields = {"resultType": "complete", **NOT_CACHED, "tools": tools}
    if isinstance(cursor, str | int) and not isinstance(cursor, bool) and cursor != "":
        found["nextCursor"] = str(cursor)
    return found


def _entries(listed: Any) -> list[Any]:
    """Return the entries of a list, of an object that has them by their names, or of one tool without a list."""
    if isinstance(listed, dict):
        named = cast("Fields", listed)
        if isinstance(named.get("name"), str):
            return [named]
        return [{"name": key, **cast("Fields", one)} if isinstance(one, dict) else one for key, one in named.items()]
    return cast("list[Any]", listed) if isinstance(listed, list) else []


def _called(entry: Any, at: int) -> str:
    name = cast("Fields", entry).get("name") if isinstance(entry, dict) else None
    return plain_text(name, _NAME_LIMIT) if isinstance(name, str) and name.strip() else f"tool {at} of the list"


def _tool(entry: Any) -> Fields:
    if not isinstance(entry, dict):
        raise _Unusable(f"it is {_kind(entry)}, not an object")
    given = cast("Fields", entry)
    name = given.get("name")
    if not isinstance(name, str) or not name.strip():
        raise _Unusable("it has no name")
    schema: Any = given.get("inputSchema")
    for other in _OTHER_NAMES:
        if schema is None and isinstance(given.get(other), dict):
            schema = given[other]
    found: Fields = {"name": name, "inputSchema": _input_schema(schema)}
    found |= {word: given[word] for word in ("title", "description") if isinstance(given.get(word), str)}
    hints = given.get("annotations")
    if isinstance(hints, dict):
        known = cast("Fields", hints)
        found["annotations"] = {hint: known[hint] for hint in _HINTS if isinstance(known.get(hint), bool)}
    return found


def _input_schema(schema: Any) -> Fields:
    """Return the schema with an object at its root. None, `true` and the empty list of PHP accept any object."""
    if schema is None or schema is True or schema == []:
        return {"type": "object"}
    if not isinstance(schema, dict):
        raise _Unusable(f"its inputSchema is {_kind(schema)}, not an object")
    found: Fields = dict(cast("Fields", schema))
    if not _is_object(found.get("type")):
        raise _Unusable(f"its inputSchema is for {plain_text(str(found['type']), 40)!r}, and arguments are an object")
    found["type"] = "object"
    properties = found.pop("properties", None)
    if isinstance(properties, dict):
        known = cast("Fields", properties)
        found["properties"] = {key: one if isinstance(one, dict | bool) else {} for key, one in known.items()}
    required = found.pop("required", None)
    if isinstance(required, list):
        found["required"] = [one for one in cast("list[Any]", required) if isinstance(one, str)]
    if not isinstance(found.get("$schema"), str):
        found.pop("$schema", None)
    return found


def _is_object(kind: Any) -> bool:
    names = cast("list[Any]", kind) if isinstance(kind, list) else [kind]
    return not names or any(one is None or (isinstance(one, str) and one.lower() == "object") for one in names)


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "a boolean"
    if isinstance(value, int | float):
        return "a number"
    return "a string" if isinstance(value, str) else "a list" if isinstance(value, list) else "an object"
