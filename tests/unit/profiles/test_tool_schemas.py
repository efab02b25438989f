"""Schemas of tools as strict models take them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agent_common.profiles import fitted_schema
from agent_common.profiles.tool_schemas import MAX_NODES

TEXT: dict[str, Any] = {"type": "string"}
NUMBER: dict[str, Any] = {"type": "integer", "exclusiveMinimum": 0}
AT_TOP: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({}, {"type": "object"}),
    ({"type": "object", "properties": {"a": TEXT}}, {"type": "object", "properties": {"a": TEXT}}),
    (
        {"anyOf": [{"properties": {"a": TEXT}, "required": ["a"]}, {"properties": {"b": NUMBER}}]},
        {"type": "object", "properties": {"a": TEXT, "b": NUMBER}},
    ),
    (
        {"type": "object", "properties": {"a": NUMBER}, "required": ["a"], "allOf": [{"$ref": "#/$defs/x"}],
         "$defs": {"x": {"properties": {"a": TEXT, "b": TEXT}, "required": ["b", "none"]}}},
        {"type": "object", "properties": {"a": NUMBER, "b": TEXT}, "required": ["a", "b"],
         "$defs": {"x": {"properties": {"a": TEXT, "b": TEXT}, "required": ["b", "none"]}}},
    ),
    ({"enum": [1], "not": {}, "const": 3, "oneOf": "odd"}, {"type": "object"}),
]  # fmt: skip


@pytest.mark.parametrize(("given", "fitted"), AT_TOP)
def test_an_object_is_at_the_top(given: dict[str, Any], fitted: dict[str, Any]) -> None:
    assert fitted_schema(given, "object") == fitted
    assert fitted_schema(given, "any") is given


MEMBERS: list[tuple[Any, dict[str, Any]]] = [
    (NUMBER, {"type": "integer"}),
    ({"type": ["string", "null"], "format": "uri"}, {"type": "string", "nullable": True}),
    ({"const": "a"}, {"type": "string", "enum": ["a"]}),
    ({"type": "integer", "enum": [1, 2]}, {"type": "integer"}),
    ({"anyOf": [TEXT, {"type": "null"}], "default": None}, {"type": "string", "nullable": True}),
    ({"oneOf": [TEXT, NUMBER], "description": "d"}, {"description": "d", "anyOf": [TEXT, {"type": "integer"}]}),
    ({"type": "array", "prefixItems": [TEXT]}, {"type": "array", "items": {"type": "string"}}),
    ({"type": "array", "items": {"$ref": "#/$defs/leaf"}}, {"type": "array", "items": {**TEXT, "title": "L"}}),
    ({"$ref": "#/$defs/tree"}, {"type": "object", "properties": {"left": {"type": "object"}}}),
    ({"$ref": "#/$defs/none"}, {}),
    ({"type": "object", "additionalProperties": TEXT, "propertyNames": {}}, {"type": "object"}),
    (True, {}),
    ({"properties": {"const": {"const": "a"}, "$ref": TEXT}},
     {"type": "object", "properties": {"const": {"type": "string", "enum": ["a"]}, "$ref": TEXT}}),
]  # fmt: skip
DEFS = {"leaf": {**TEXT, "title": "L"}, "tree": {"type": "object", "properties": {"left": {"$ref": "#/$defs/tree"}}}}


@pytest.mark.parametrize(("given", "plain"), MEMBERS)
def test_members_become_plain(given: Any, plain: dict[str, Any]) -> None:
    schema = {"$schema": "x", "type": "object", "properties": {"a": given}, "required": ["a", "b"], "$defs": DEFS}
    assert fitted_schema(schema, "plain") == {"type": "object", "properties": {"a": plain}, "required": ["a"]}


EMPTY: list[tuple[Any, dict[str, Any]]] = [
    ({"type": "object"}, {**TEXT, "description": "A JSON object."}),
    ({"type": "object", "properties": {}, "description": "Of x."}, {**TEXT, "description": "Of x. A JSON object."}),
    ({"type": ["object", "null"]}, {**TEXT, "nullable": True, "description": "A JSON object."}),
    ({"type": "array", "items": {"type": "object"}},
     {"type": "array", "items": {**TEXT, "description": "A JSON object."}}),
    ({"anyOf": [TEXT, {"type": "object"}]}, {"anyOf": [TEXT, {**TEXT, "description": "A JSON object."}]}),
    ({"properties": {"b": {"type": "object"}}},
     {"type": "object", "properties": {"b": {**TEXT, "description": "A JSON object."}}}),
    (TEXT, TEXT),
]  # fmt: skip


@pytest.mark.parametrize(("given", "filled"), EMPTY)
def test_an_object_without_members_is_a_text_for_models_that_refuse_it(
    given: dict[str, Any], filled: dict[str, Any]
) -> None:
    schema = {"type": "object", "properties": {"a": given}, "required": ["a"]}
    assert fitted_schema(schema, "filled") == {"type": "object", "properties": {"a": filled}, "required": ["a"]}
    assert fitted_schema({"type": "object", "properties": {}}, "filled") == {"type": "object", "properties": {}}


def test_references_that_multiply_have_a_bound() -> None:
    levels = {f"l{at}": {"properties": {name: {"$ref": f"#/$defs/l{at + 1}"} for name in "abc"}} for at in range(40)}
    plain = fitted_schema({"type": "object", "properties": {"a": {"$ref": "#/$defs/l0"}}, "$defs": levels}, "plain")
    assert len(json.dumps(plain)) < 100 * MAX_NODES
