"""What is said of a tool beyond what a model's list shows."""

from __future__ import annotations

from typing import Any

import pytest

from agent_runtime.connectors.tools.descriptions import full_description

LONG = f"{'x ' * 150}heron"
PARAMETER: dict[str, Any] = {"type": "string", "description": LONG}
OBJECT: dict[str, Any] = {"type": "object", "properties": {"mode": PARAMETER}}


@pytest.mark.parametrize(
    ("schema", "path"),
    [
        (OBJECT, "mode"),
        ({"properties": {"to": OBJECT}}, "to.mode"),
        ({"properties": {"all": {"type": "array", "items": OBJECT}}}, "all.mode"),
        ({"properties": {"all": {"type": "array", "items": PARAMETER}}}, "all"),
        ({"properties": {"to": {"anyOf": [OBJECT, {"type": "null"}]}}}, "to.mode"),
        ({"properties": {"to": {"allOf": [{"$ref": "#/$defs/Place"}]}}, "$defs": {"Place": OBJECT}}, "Place.mode"),
        ({"properties": {"to": {"$ref": "#/definitions/Place"}}, "definitions": {"Place": OBJECT}}, "Place.mode"),
        ({"oneOf": [OBJECT, {"type": "object"}]}, "mode"),
    ],
)
def test_long_descriptions_of_parameters_are_found_wherever_they_are(schema: dict[str, Any], path: str) -> None:
    assert full_description("Moves.", schema) == f"Moves.\n{path}: {LONG}"


@pytest.mark.parametrize("schema", [{}, {"properties": 7, "items": [OBJECT], "anyOf": "x", "$defs": {"a": [OBJECT]}}])
def test_what_is_no_schema_has_none(schema: dict[str, Any]) -> None:
    assert full_description("Moves.", schema) == ""
