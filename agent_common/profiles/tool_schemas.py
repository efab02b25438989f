"""Schemas of tools in the part of JSON Schema that a model takes. The tool itself still checks its whole schema."""

from __future__ import annotations

import re
from typing import Any, Literal, cast

from pydantic_core import to_json

from ..protocol import is_object

SchemaRule = Literal["any", "object", "plain", "filled"]
STRICTNESS: tuple[SchemaRule, ...] = ("any", "object", "plain", "filled")
"""The rules; each asks for all that those before it ask for."""
MAX_NODES = 5000
"""Schemas within one, with those that references stand for; what is beyond says nothing."""
_UNIONS = ("oneOf", "anyOf", "allOf")
_NOT_AT_TOP = (*_UNIONS, "enum", "const", "not")
# fmt: off
_PLAIN = frozenset((
    "title", "description", "format", "nullable", "minimum", "maximum", "minItems", "maxItems", "minLength",
    "maxLength", "pattern",
))
# fmt: on
_PLAIN_NAME = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
_FORMATS = ("enum", "date-time")
Schema = dict[str, Any]


def fitted_schema(schema: Schema, rule: SchemaRule) -> Schema:
    """Return the schema of a tool's arguments as a model takes it.

    `object`: an object at its top, with the properties of all its alternatives. `plain`: also without references and
    keywords beyond those of OpenAPI, as Gemini takes it. `filled`: also without objects that have no members, but for
    the one at the top.
    """
    if rule == "any":
        return schema
    fitted = _with_object_at_top(schema)
    if rule == "object":
        return fitted
    plain = _Plain(schema).reduced(fitted)
    return plain if rule == "plain" else _with_filled_members(plain)


def with_plain_names(description: str, schema: Schema) -> tuple[str, Schema]:
    """Return the description and the schema of a tool without the arguments whose names Claude refuses. The description
    then has them, because the tool still takes them."""
    properties = _object(schema.get("properties"))
    odd = {name: one for name, one in properties.items() if not _PLAIN_NAME.fullmatch(name)}
    if not odd:
        return description, schema
    kept = {name: one for name, one in properties.items() if name not in odd}
    required = [name for name in _list(schema.get("required")) if isinstance(name, str) and name in kept]
    rest = {name: value for name, value in schema.items() if name != "required"}
    described = "\n\n".join(filter(None, (description, f"Further arguments: {to_json(odd).decode()}")))
    return described, {**rest, "properties": kept, **({"required": required} if required else {})}


def _with_object_at_top(schema: Schema) -> Schema:
    if schema.get("type") == "object" and not schema.keys() & set(_NOT_AT_TOP):
        return schema
    kept = {name: value for name, value in schema.items() if name not in _NOT_AT_TOP}
    return {**kept, **_merged(schema, schema), "type": "object"}


def _merged(schema: Schema, root: Schema) -> Schema:
    """Return the properties of an object and its alternatives together, and what all of them require."""
    properties = dict(_object(schema.get("properties")))
    required = _list(schema.get("required"))
    for union in _UNIONS:
        for alternative in (_resolved(one, root) for one in _list(schema.get(union))):
            properties = {**_object(alternative.get("properties")), **properties}
            required += _list(alternative.get("required")) if union == "allOf" else []
    names = list(dict.fromkeys(name for name in required if name in properties))
    return {**({"properties": properties} if properties else {}), **({"required": names} if names else {})}


class _Plain:
    """Reduces one schema and what it refers to."""

    def __init__(self, root: Schema) -> None:
        self._root = root
        self._left = MAX_NODES

    def reduced(self, given: object, within: frozenset[str] = frozenset()) -> Schema:
        """Return a schema without what is not plain. `within`: the references that it stands in."""
        self._left -= 1
        schema = _object(given)
        reference = schema.get("$ref")
        if self._left < 0 or (isinstance(reference, str) and reference in within):
            return {"type": "object"}
        if isinstance(reference, str):
            rest = {name: value for name, value in schema.items() if name != "$ref"}
            return self.reduced({**_resolved(schema, self._root), **rest}, within | {reference})
        if "allOf" in schema:
            schema = {**schema, **_merged(schema, self._root)}
        kept = {name: schema[name] for name in _PLAIN & schema.keys()}
        if kept.get("format") not in _FORMATS:
            kept.pop("format", None)
        kept |= self._type(schema) | self._alternatives(schema, within)
        if is_object(schema.get("properties")):
            kept["properties"] = {name: self.reduced(one, within) for name, one in schema["properties"].items()}
            kept.setdefault("type", "object")
            required = [name for name in _list(schema.get("required")) if name in kept["properties"]]
            kept |= {"required": required} if required else {}
        if kept.get("type") == "array":
            kept["items"] = self.reduced(schema.get("items"), within) or {"type": "string"}
        return kept

    @staticmethod
    def _type(schema: Schema) -> Schema:
        types = [one for one in _list(schema.get("type")) or [schema.get("type")] if isinstance(one, str)]
        kept: Schema = {"type": next(one for one in types if one != "null")} if set(types) - {"null"} else {}
        if "null" in types:
            kept["nullable"] = True
        values = [schema["const"]] if "const" in schema else _list(schema.get("enum"))
        if values and all(isinstance(value, str) for value in values):
            kept |= {"type": "string", "enum": values}
        return kept

    def _alternatives(self, schema: Schema, within: frozenset[str]) -> Schema:
        found = [_object(one) for union in ("anyOf", "oneOf") for one in _list(schema.get(union))]
        real = [one for one in found if one.get("type") != "null"]
        kept: Schema = {"nullable": True} if len(real) < len(found) else {}
        if len(real) == 1:
            return {**self.reduced(real[0], within), **kept}
        return {**kept, "anyOf": [self.reduced(one, within) for one in real]} if real else kept


def _filled(plain: Schema) -> Schema:
    """Return a plain schema with a text in the place of each object without members: the agent makes it an object."""
    if plain.get("type") == "object" and not plain.get("properties"):
        kept = {name: value for name, value in plain.items() if name not in ("properties", "required")}
        return {**kept, "type": "string", "description": f"{plain.get('description') or ''} A JSON object.".strip()}
    return _with_filled_members(plain)


def _with_filled_members(plain: Schema) -> Schema:
    filled = dict(plain)
    if "properties" in plain:
        filled["properties"] = {name: _filled(one) for name, one in plain["properties"].items()}
    if "items" in plain:
        filled["items"] = _filled(plain["items"])
    if "anyOf" in plain:
        filled["anyOf"] = [_filled(one) for one in plain["anyOf"]]
    return filled


def _resolved(schema: object, root: Schema) -> Schema:
    """Return what a schema refers to within the whole, or the schema itself."""
    reference = _object(schema).get("$ref")
    if not isinstance(reference, str) or not reference.startswith("#/"):
        return _object(schema)
    found: object = root
    for step in reference.removeprefix("#/").split("/"):
        found = _object(found).get(step.replace("~1", "/").replace("~0", "~"))
    return _object(found)


def _object(value: object) -> Schema:
    return value if is_object(value) else {}


def _list(value: object) -> list[Any]:
    return list(cast("list[Any]", value)) if isinstance(value, list) else []
