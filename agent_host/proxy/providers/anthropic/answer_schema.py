"""Schemas of answers in the part of JSON Schema that Claude takes.

The package `anthropic` has `transform_schema` for this, which fails for what other clients send: lists of types, and
schemas that take any value.
"""

from __future__ import annotations

from typing import Any

from pydantic_core import to_json

from ...json_access import as_list, as_object

# fmt: off
_TAKEN = frozenset(("type", "const", "title", "description", "required"))
_FORMATS = frozenset((
    "date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid",
))
# fmt: on
_SCHEMAS_BY_NAME = ("properties", "$defs", "definitions")
_SAYS_NOTHING = ("$schema", "$id", "$comment")


def closed_schema(schema: object) -> dict[str, Any]:
    """Return the schema with all its objects closed: they have the properties that they name. What else Claude does not
    take stands in the description, where the model reads it."""
    given = as_object(schema)
    inner: dict[str, Any] = {name: _closed_by_name(given[name]) for name in _SCHEMAS_BY_NAME if name in given}
    if "$ref" in given:  # Claude takes nothing beside it
        return {"$ref": given["$ref"], **{name: inner[name] for name in inner if name != "properties"}}
    for name in ("anyOf", "oneOf", "allOf"):
        if name in given:  # that one alternative holds and not two, Claude cannot be told
            inner["anyOf" if name == "oneOf" else name] = [closed_schema(one) for one in as_list(given[name])]
    if isinstance(given.get("items"), dict):
        inner["items"] = closed_schema(given["items"])
    taken = {name: value for name, value in given.items() if _is_taken(name, value)}
    if "enum" in taken or "const" in taken:
        taken.pop("type", None)  # they say more, and Claude finds values that do not fit a list of types
    elif "properties" in inner or "object" in (given.get("type"), *as_list(given.get("type"))):
        taken = {"type": "object", **taken, "additionalProperties": False}
    known = {*taken, *inner, *_SAYS_NOTHING, "type", "oneOf"}
    further = {name: value for name, value in given.items() if name not in known}
    if further:
        words = (str(given.get("description") or ""), to_json(further).decode())
        taken["description"] = "\n\n".join(filter(None, words))
    return {**taken, **inner}


def _closed_by_name(schemas: object) -> dict[str, Any]:
    return {name: closed_schema(one) for name, one in as_object(schemas).items()}


def _is_taken(name: str, value: object) -> bool:
    match name:
        case "enum":
            return not any(isinstance(one, dict | list) for one in as_list(value))
        case "format":
            return isinstance(value, str) and value in _FORMATS
        case "minItems":
            return value in (0, 1)
        case _:
            return name in _TAKEN
