"""Convert arguments that a model has written in another type than the schema wants, where nothing is lost by it.

`"50"` for a number, `"true"` for a boolean and null for a field that may be left out are what models write most often
instead. What could mean two things stays as it is, and the schema refuses it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from functools import cached_property
from itertools import chain, repeat
from typing import Any, cast

from agent_common.json_reader import JsonLimits, JsonRefused, read_json

MAX_DEPTH = 16
"""Levels of arguments in which values are converted."""
_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]{0,17})")
_WHOLE = re.compile(r"-?(?:0|[1-9][0-9]{0,14})\.0{1,6}")
"""A whole number that is written as a fraction."""
_MAX_EXACT = 2.0**53
"""Up to here each whole number is a float of its own."""
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]{0,17})(?:\.[0-9]{1,17})?(?:[eE][+-]?[0-9]{1,3})?")
_JSON_LIMITS = JsonLimits(256 * 1024)
_BOOLEANS = {"true": True, "false": False}
_TYPES: tuple[tuple[type, str], ...] = (
    (bool, "boolean"),  # before int, of which it is a kind
    (int, "integer"),
    (float, "number"),
    (str, "string"),
    (list, "array"),
    (dict, "object"),
)

_NO_TYPES = frozenset[str]()

Schema = Mapping[str, Any]


def coerce_arguments(schema: Schema, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments with those values converted that the schema does not take as they are."""
    conversion = _Conversion()
    return conversion.of_object(conversion.facts(schema).object_part, arguments, 0)


class _Facts:
    """What a schema says, each worked out when a value needs it."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema

    @cached_property
    def types(self) -> frozenset[str]:
        return types_of(self.schema)

    @cached_property
    def refuses_null(self) -> bool:
        """Whether null is none of the types that the schema takes, or none of the values that it lists."""
        return any(found and "null" not in found for found in (self.types, _types_of_values(self.schema)))

    @cached_property
    def object_part(self) -> Schema:
        return _part_with_members(self.schema, "object")

    @cached_property
    def array_part(self) -> Schema:
        return _part_with_members(self.schema, "array")

    @cached_property
    def required(self) -> frozenset[str]:
        names = cast("list[Any]", self.schema.get("required") or [])
        return frozenset(name for name in names if isinstance(name, str))


class _Conversion:
    """Converts one set of arguments. A list may have thousands of values, and their schema as many alternatives: what
    it says is worked out once for all of them."""

    def __init__(self) -> None:
        self._facts: dict[int, _Facts] = {}
        """Id of a schema -> what it says, and the schema itself, so that no other one gets its id."""

    def facts(self, schema: Schema) -> _Facts:
        known = self._facts.get(id(schema))
        if known is None:
            known = self._facts[id(schema)] = _Facts(schema)
        return known

    def of_object(self, schema: Schema, members: Mapping[str, Any], depth: int) -> dict[str, Any]:
        properties: Any = schema.get("properties")
        known: Schema = cast("Schema", properties) if isinstance(properties, Mapping) else {}
        required = self.facts(schema).required
        others: Any = schema.get("additionalProperties") if "patternProperties" not in schema else None
        found: dict[str, Any] = {}
        for name, value in members.items():
            inner: Any = known.get(name, others)
            if not isinstance(inner, Mapping):
                found[name] = value
                continue
            facts = self.facts(cast("Schema", inner))
            may_be_left_out = name in known and name not in required
            if value is None and may_be_left_out and facts.refuses_null:
                continue
            found[name] = self._of_value(facts, value, depth + 1)
        return found

    def _of_value(self, facts: _Facts, value: Any, depth: int) -> Any:
        types = facts.types
        if depth > MAX_DEPTH:
            return value
        if types and not _fits(value, types):
            value = _converted(value, types)
        elif "integer" in types and "number" not in types and _is_exact(value):
            value = int(value)
        if isinstance(value, Mapping):
            return self.of_object(facts.object_part, cast("Mapping[str, Any]", value), depth)
        if isinstance(value, list):
            return self._of_array(facts.array_part, cast("list[Any]", value), depth)
        return value

    def _of_array(self, schema: Schema, elements: list[Any], depth: int) -> list[Any]:
        first: Any = schema.get("prefixItems")
        schemas = cast("list[Any]", first) if isinstance(first, list) else []
        return [
            self._of_value(self.facts(cast("Schema", inner)), one, depth + 1) if isinstance(inner, Mapping) else one
            for inner, one in zip(chain(schemas, repeat(schema.get("items"))), elements, strict=False)
        ]


def types_of(schema: Schema) -> frozenset[str]:
    """Return the types that a schema takes; empty if it does not say."""
    declared: Any = schema.get("type")
    if isinstance(declared, str):
        return frozenset((declared,))
    if isinstance(declared, list):
        return frozenset(one for one in cast("list[Any]", declared) if isinstance(one, str))
    return _types_of_parts(schema, types_of)


def _types_of_parts(schema: Schema, types_of_part: Callable[[Schema], frozenset[str]]) -> frozenset[str]:
    """Return the types that the alternatives of a schema take, or all of its parts together."""
    for word in ("anyOf", "oneOf", "allOf"):
        parts: Any = schema.get(word)
        if isinstance(parts, list):
            inner = cast("list[Any]", parts)
            found = [types_of_part(cast("Schema", one)) if isinstance(one, Mapping) else _NO_TYPES for one in inner]
            if word == "allOf":
                known = [types for types in found if types]
                return known[0].intersection(*known) if known else _NO_TYPES
            return _NO_TYPES.union(*found) if all(found) else _NO_TYPES
    return _NO_TYPES


def _types_of_values(schema: Schema) -> frozenset[str]:
    """Return the types of the values that a schema lists, else those that it takes; empty if it does not say. For null
    alone: a text for a number in such a list may be meant as either."""
    if "const" in schema:
        return frozenset((_kind(schema["const"]),))
    values: Any = schema.get("enum")
    if isinstance(values, list):
        return frozenset(_kind(one) for one in cast("list[Any]", values))
    return _types_of_parts(schema, _types_of_values) or types_of(schema)


def _part_with_members(schema: Schema, kind: str) -> Schema:
    """Return the part of a schema that says what the members of this type are: the schema itself with the parts of its
    `allOf` that name members too, or the one alternative that takes the type. Empty if there is none."""
    parts = _parts(schema, "allOf")
    found = [schema] if _names_members(schema, kind) else []
    found += [part for one in parts if (part := _part_with_members(one, kind))]
    if found and parts and kind == "object":
        return _joined_object(found, [schema, *parts])
    if found:
        return found[0] if len(found) == 1 or found[0] is schema else {}
    for word in ("anyOf", "oneOf"):
        suitable = [one for one in _parts(schema, word) if kind in types_of(one)]
        if len(suitable) == 1 and (part := _part_with_members(suitable[0], kind)):
            return part
    return {}


def _names_members(schema: Schema, kind: str) -> bool:
    if kind == "object":
        return "properties" in schema or isinstance(schema.get("additionalProperties"), Mapping)
    return "items" in schema or "prefixItems" in schema


def _parts(schema: Schema, word: str) -> list[Schema]:
    parts: Any = schema.get(word)
    known = cast("list[Any]", parts) if isinstance(parts, list) else []
    return [cast("Schema", one) for one in known if isinstance(one, Mapping)]


def _joined_object(naming: list[Schema], parts: list[Schema]) -> Schema:
    """Return what several schemas that hold together say of an object. `naming`: those that name members."""
    properties: dict[str, Any] = {}
    for one in naming:
        known: Any = one.get("properties")
        for name, inner in cast("Schema", known).items() if isinstance(known, Mapping) else ():
            properties[name] = {"allOf": [properties[name], inner]} if name in properties else inner
    required = [name for one in (*naming, *parts) for name in cast("list[Any]", one.get("required") or [])]
    joined: dict[str, Any] = {"properties": properties, "required": required}
    for word in ("additionalProperties", "patternProperties"):
        if stated := [one[word] for one in (*naming, *parts) if word in one]:
            joined[word] = stated[0]
    return joined


def _kind(value: Any) -> str:
    return next((name for python, name in _TYPES if isinstance(value, python)), "null" if value is None else "")


def _is_exact(value: Any) -> bool:
    return isinstance(value, float) and value.is_integer() and abs(value) < _MAX_EXACT


def _fits(value: Any, types: frozenset[str]) -> bool:
    if value is None:
        return "null" in types
    kind = _kind(value)
    whole = isinstance(value, float) and value.is_integer() and "integer" in types
    return kind in types or whole or (kind == "integer" and "number" in types)


def _converted(value: Any, types: frozenset[str]) -> Any:
    """Return the value in one of the types, or as it is."""
    if isinstance(value, str):
        return _of_text(value, types)
    if isinstance(value, int) and "string" in types <= {"string", "null"}:
        return str(value).lower()  # as JSON has it, a boolean too
    return value


def _of_text(text: str, types: frozenset[str]) -> Any:
    plain = text.strip()
    if "integer" in types and _INTEGER.fullmatch(plain):
        return int(plain)
    if "number" in types and _NUMBER.fullmatch(plain) and math.isfinite(number := float(plain)):
        return int(plain) if _INTEGER.fullmatch(plain) else number
    if "integer" in types and _WHOLE.fullmatch(plain):
        return int(float(plain))
    if "boolean" in types and plain.lower() in _BOOLEANS:
        return _BOOLEANS[plain.lower()]
    if plain[:1] in ("[", "{") and types & {"array", "object"}:
        try:
            parsed: Any = read_json(plain.encode(errors="replace"), _JSON_LIMITS)
        except JsonRefused:
            return text
        return parsed if _fits(parsed, types) else text
    return text
