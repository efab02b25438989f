from __future__ import annotations

from typing import Any

import pytest

from agent_runtime.ports import ToolSpec
from agent_runtime.skills.validation.declarations import DeclarationRefused, check_declaration

PARAMETERS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "pattern": {"type": "string"},
        "items": {"type": "array", "items": {"anyOf": [{"type": "null"}, True]}},
    },
    "required": ["pattern"],
    "additionalProperties": False,
}


def skill(**changes: Any) -> dict[str, Any]:
    return {"name": "mine", "description": " Does it. ", "parameters": PARAMETERS, "timeout": None, **changes}


def deep(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(levels):
        schema = {"type": "array", "items": schema}
    return {"type": "object", "properties": {"x": schema}}


def default(value: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"x": {"default": value}}}


def nested(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels):
        value = [value]
    return value


def test_a_good_one_becomes_a_tool() -> None:
    declared = check_declaration(skill(read_only=True, timeout=2.5))
    assert declared.spec == ToolSpec("mine", "Does it.", PARAMETERS, source="custom", read_only=True)
    assert declared.timeout == 2.5


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"name": "1st"}, "name: must be 1 to 64 letters"),
        ({"name": "a b"}, "name: must be"),
        ({"name": "x" * 65}, "name: must be"),
        ({"name": "mine\n"}, "name: must be"),
        ({"name": 3}, "name: must be"),
        ({"name": "bash"}, "name: bash is a tool of the runtime; take another name"),
        ({"name": "web_search"}, "name: web_search is a tool of the runtime"),
        ({"description": " "}, "description: must say what the skill does"),
        ({"description": "x" * 2001}, "at most 2000 characters"),
        ({"description": None}, "description: must say"),
        ({"timeout": 0}, "timeout: must be seconds"),
        ({"timeout": 3601}, "timeout: must be seconds"),
        ({"timeout": True}, "timeout: must be seconds"),
        ({"timeout": "5"}, "timeout: must be seconds"),
        ({"timeout": float("nan")}, "timeout: must be seconds"),
        ({"parameters": None}, "parameters: must be a JSON Schema"),
        ({"parameters": []}, "parameters: must be a JSON Schema"),
        ({"parameters": {"type": "array"}}, "parameters: the schema of a tool's arguments must be of type object"),
        ({"parameters": {"type": "object", "properties": {"x": {"type": "text"}}}}, "parameters: properties.x.type: "),
        ({"parameters": {"type": "object", "properties": {"x": 3}}}, "parameters.x: must be a JSON Schema"),
        ({"parameters": {"type": "object", "description": "x" * 40_000}}, "parameters: must be at most 32 KiB"),
        ({"parameters": deep(9)}, "is nested more than 8 levels deep"),
        ({"parameters": {"type": "object", "anyOf": [{}] * 2000}}, "must have at most 2000 values"),
        ({"parameters": default(10**20)}, "a number is beyond"),
        ({"parameters": default(float("inf"))}, "a number is beyond"),
        ({"parameters": default(float("nan"))}, "a number is beyond"),
        ({"parameters": default(nested(100))}, "parameters: are nested too deep"),
    ],
)
def test_what_is_wrong_is_named(changes: dict[str, Any], told: str) -> None:
    with pytest.raises(DeclarationRefused) as caught:
        check_declaration(skill(**changes))
    assert told in str(caught.value)


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "string", "pattern": "(a+)+$"},
        {"$ref": "http://127.0.0.1/schema"},
        {"$ref": "#"},
        {"patternProperties": {"(a+)+$": {}}},
        {"items": {"anyOf": [{"$dynamicRef": "#x"}]}},
        {"not": {"if": {}}},
        {"additionalProperties": {"dependentSchemas": {}}},
        {"allOf": [{"$defs": {}}]},
    ],
)
def test_keywords_that_could_hold_the_server_up_are_refused(schema: dict[str, Any]) -> None:
    with pytest.raises(DeclarationRefused, match="is not supported; check it in the function"):
        check_declaration(skill(parameters={"type": "object", "properties": {"x": schema}}))


def test_a_schema_without_a_bottom_is_refused() -> None:
    schema: dict[str, Any] = {}
    for _ in range(5000):
        schema = {"default": schema}
    with pytest.raises(DeclarationRefused, match="nested too deep"):
        check_declaration(skill(parameters={"type": "object", "properties": {"x": schema}}))
