"""Check the JSON Schema that a caller gives for an answer: it must be valid, small, whole and quick to check."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from typing import Any, cast
from urllib.parse import unquote

from . import schema_bounds as bounds
from .linear_patterns import pattern_fault
from .schema import check_in_thread, load_schema_validator, syntax_fault

MAX_SCHEMA_CHARACTERS = 32 * 1024
"""Maximum characters of a schema as JSON. The model is sent all of it."""
MAX_SCHEMA_DEPTH = 16
"""Maximum schemas inside each other."""
_ONE_FOR_PARTS = (
    *("additionalProperties", "contains", "contentSchema", "items", "propertyNames"),
    *("unevaluatedItems", "unevaluatedProperties"),
)
_ONE_FOR_THE_SAME = ("else", "if", "not", "then")
_LIST_FOR_THE_SAME = ("allOf", "anyOf", "oneOf")
_NAMED = ("$defs", "definitions", "dependentSchemas", "properties")
_REFUSED = {
    "$anchor": "refer to a schema by its place, such as #/$defs/name",
    "$dynamicAnchor": "refer to a schema by its place, such as #/$defs/name",
    "$dynamicRef": "use $ref with a place in this schema, such as #/$defs/name",
    "$id": "leave it out; references are to places in this schema",
    "$recursiveRef": "use $ref with a place in this schema, such as #/$defs/name",
    "patternProperties": "is not supported; use additionalProperties, and propertyNames with a pattern",
}

Fault = tuple[str, str]
"""The path of what is wrong, empty for the whole schema, and what to do about it."""


async def check_answer_schema(schema: Mapping[str, Any]) -> Fault | None:
    """Return what makes the schema unfit for answers, which are objects; None if it is fit."""
    await load_schema_validator()
    return await check_in_thread(lambda: answer_schema_fault(schema))


def answer_schema_fault(schema: Mapping[str, Any]) -> Fault | None:
    """Return the same as `check_answer_schema`, in this thread."""
    size = len(json.dumps(schema))
    kind = schema.get("type", "object")
    if size > MAX_SCHEMA_CHARACTERS:
        return "", f"has {size} characters; at most {MAX_SCHEMA_CHARACTERS} are allowed"
    if kind != "object" and not (isinstance(kind, list) and "object" in kind):
        return "type", "must be object, because an answer is one"
    try:
        return _unsupported_part(schema) or syntax_fault(schema)
    except bounds.WorkLimitExceeded:
        return "", f"the check took longer than {bounds.CHECK_SECONDS:g} s; use fewer patterns"


@dataclass(frozen=True, slots=True)
class _Part:
    """A schema inside the schema."""

    pointer: str
    """The JSON pointer to it."""
    schema: Mapping[str, Any]
    depth: int = 0
    parent: str | None = None
    """The place of the schema around it, if both are about the same value."""

    @property
    def reference(self) -> str | None:
        """The place that its `$ref` names; None without one, or if it leads elsewhere."""
        target = self.schema.get("$ref")
        return unquote(target[1:]) if isinstance(target, str) and target.startswith("#") else None

    def inner(self) -> Iterator[_Part]:
        """Yield the schemas directly inside this one."""
        for word in (*_ONE_FOR_PARTS, *_ONE_FOR_THE_SAME):
            yield from self._part(self.schema.get(word), word, same_value=word in _ONE_FOR_THE_SAME)
        for word in (*_LIST_FOR_THE_SAME, "prefixItems"):
            several: Any = self.schema.get(word)
            for index, one in enumerate(cast("list[Any]", several) if isinstance(several, list) else ()):
                yield from self._part(one, word, str(index), same_value=word in _LIST_FOR_THE_SAME)
        for word in _NAMED:
            named: Any = self.schema.get(word)
            for name, one in (cast("dict[str, Any]", named) if isinstance(named, dict) else {}).items():
                yield from self._part(one, word, name, same_value=word == "dependentSchemas")

    def _part(self, value: Any, *path: str, same_value: bool) -> Iterator[_Part]:
        if isinstance(value, dict):
            pointer = "/".join((self.pointer, *(step.replace("~", "~0").replace("/", "~1") for step in path)))
            yield _Part(pointer, cast("dict[str, Any]", value), self.depth + 1, self.pointer if same_value else None)


def _unsupported_part(schema: Mapping[str, Any]) -> Fault | None:
    """Return the first part that leads out of the schema, or that cannot be checked in bounded time."""
    clock = bounds.start_clock()
    parts = {"": _Part("", schema)}
    waiting = [*parts.values()]
    while waiting:
        part = waiting.pop()
        if part.depth > MAX_SCHEMA_DEPTH:
            return _path(part.pointer), f"at most {MAX_SCHEMA_DEPTH} schemas may be inside each other"
        inner = list(part.inner())
        parts |= {one.pointer: one for one in inner}
        waiting += inner
    for part in parts.values():
        clock.check_time()
        for word, remedy in _REFUSED.items():
            if word in part.schema:
                return _path(part.pointer, word), remedy
        if "$schema" in part.schema and part.pointer:
            return _path(part.pointer, "$schema"), "is allowed at the top only"
        if "$ref" in part.schema and part.reference not in parts:
            return _path(part.pointer, "$ref"), "must name a schema inside this one, such as #/$defs/name"
        pattern = part.schema.get("pattern")
        if isinstance(pattern, str) and (fault := pattern_fault(pattern)) is not None:
            return _path(part.pointer, "pattern"), fault
    return _endless_reference(parts)


def _endless_reference(parts: Mapping[str, _Part]) -> Fault | None:
    """Return a reference that leads back to itself for the same value, so that a check would not end."""
    graph: dict[str, set[str]] = {pointer: set() for pointer in parts}
    for part in parts.values():
        if part.parent is not None:
            graph[part.parent].add(part.pointer)
        if part.reference is not None:
            graph[part.pointer].add(part.reference)
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        cycle = cast("list[str]", error.args[1])
        at = next(pointer for pointer in cycle if "$ref" in parts[pointer].schema)
        return _path(at, "$ref"), "leads back to itself"
    return None


def _path(pointer: str, *words: str) -> str:
    return ".".join((*pointer.split("/")[1:], *words))
