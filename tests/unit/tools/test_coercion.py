"""Arguments in another type than the schema wants are converted where nothing is lost, and refused otherwise."""

from __future__ import annotations

import time
from typing import Any

import pytest

from agent_runtime.ports import ToolContext, ToolResult, ToolSpec
from agent_runtime.tools import Tool, ToolRegistry
from agent_runtime.tools.core.coercion import coerce_arguments

INTEGER: dict[str, Any] = {"type": "integer"}
OPTIONAL = {"anyOf": [{"type": "integer"}, {"type": "null"}]}
STRINGS = {"type": "array", "items": {"type": "string"}}
NESTED = {"type": "object", "properties": {"count": INTEGER, "on": {"type": "boolean"}}}
NUMBERED: dict[str, Any] = {"type": "object", "properties": {"n": INTEGER}}
TWO_PARTS: dict[str, Any] = {"allOf": [NUMBERED, {"properties": {"m": {"type": "boolean"}}}]}
MAP: dict[str, Any] = {"type": "object", "additionalProperties": INTEGER}

CONVERTED: list[tuple[dict[str, Any], Any, Any]] = [
    (INTEGER, "50", 50),
    (INTEGER, " -7 ", -7),
    (INTEGER, "0", 0),
    ({"type": ["integer", "null"]}, "50", 50),
    (OPTIONAL, "50", 50),
    ({"type": "number"}, "2.5", 2.5),
    ({"type": "number"}, "1e3", 1000.0),
    ({"type": "number"}, "12345678901234567", 12345678901234567),
    ({"type": "boolean"}, "true", True),
    ({"type": "boolean"}, "False", False),
    ({"type": "string"}, 50, "50"),
    ({"type": "string"}, True, "true"),
    ({"type": ["string", "null"]}, False, "false"),
    (MAP, {"x": "5", "y": 6}, {"x": 5, "y": 6}),
    ({"additionalProperties": {"type": "string"}}, {"X-Id": 5}, {"X-Id": "5"}),
    ({"anyOf": [MAP, {"type": "null"}]}, {"x": "5"}, {"x": 5}),
    ({**NESTED, **MAP}, {"count": "3", "on": "true", "x": "5"}, {"count": 3, "on": True, "x": 5}),
    ({**MAP, "allOf": [NESTED]}, {"count": "3", "x": "5"}, {"count": 3, "x": 5}),
    ({"type": "array", "prefixItems": [INTEGER, {"type": "boolean"}]}, ["1", "true", "2"], [1, True, "2"]),
    ({"prefixItems": [INTEGER], "items": {"type": "string"}}, ["1", 2], [1, "2"]),
    (STRINGS, '["a", "b"]', ["a", "b"]),
    (STRINGS, [1, "b"], ["1", "b"]),
    ({"type": "array", "items": INTEGER}, ["1", 2], [1, 2]),
    (NESTED, '{"count": "3"}', {"count": 3}),
    (NESTED, {"count": "3", "on": "true"}, {"count": 3, "on": True}),
    (NESTED, {"count": None, "on": True}, {"on": True}),
    ({"anyOf": [NESTED, {"type": "null"}]}, {"count": "3"}, {"count": 3}),
    ({"allOf": [INTEGER, {"minimum": 1}], "default": 3}, "5", 5),
    ({"allOf": [{"type": ["integer", "null"]}, INTEGER]}, "5", 5),
    ({"allOf": [{"type": "object"}, NESTED]}, '{"count": 3}', {"count": 3}),
    ({"allOf": [NESTED], "default": {}}, {"count": "3"}, {"count": 3}),
    ({"allOf": [STRINGS]}, [1], ["1"]),
    ({"anyOf": [{"allOf": [{"type": "object"}, NESTED]}, {"type": "null"}]}, {"count": "3"}, {"count": 3}),
    ({**NESTED, "anyOf": [{"required": ["count"]}, {"required": ["on"]}]}, {"count": "3"}, {"count": 3}),
    (TWO_PARTS, {"n": "1", "m": "true"}, {"n": 1, "m": True}),
    ({**NESTED, **TWO_PARTS}, {"count": "3", "n": "1", "m": "true"}, {"count": 3, "n": 1, "m": True}),
    ({"anyOf": [TWO_PARTS, {"type": "null"}], "type": "object"}, {"n": "1", "m": "true"}, {"n": 1, "m": True}),
    ({"allOf": [{"properties": {"n": {"type": ["integer", "string"]}}}, NUMBERED]}, {"n": "1"}, {"n": 1}),
    ({"allOf": [NUMBERED, {"required": ["n"]}]}, {"n": None}, {"n": None}),
    ({"allOf": [NUMBERED, {"properties": {"m": INTEGER}}]}, {"n": None, "m": 1}, {"m": 1}),
    ({"type": ["integer", "null"]}, 50.0, 50),
    (OPTIONAL, 50.0, 50),
    (INTEGER, "50.0", 50),
    ({"type": ["integer", "number"]}, "50.0", 50.0),
]
KEPT: list[tuple[dict[str, Any], Any]] = [
    (INTEGER, "fifty"),
    (INTEGER, "1.5"),
    (INTEGER, "1.05"),
    (INTEGER, 1e300),
    ({"type": ["integer", "number"]}, 50.0),
    ({"anyOf": [NESTED, {"type": "object", "properties": {"count": {"type": "string"}}}]}, {"count": "3"}),
    (INTEGER, "007"),
    (INTEGER, "9" * 40),
    (INTEGER, ""),
    (INTEGER, True),
    ({"type": "number"}, "1e999"),
    ({"type": "number"}, "nan"),
    ({"type": "boolean"}, "yes"),
    ({"type": "boolean"}, 1),
    ({"type": "string"}, {"a": 1}),
    ({"type": "string"}, 1.5),  # a version 1.50 would be another one
    ({"type": ["string", "boolean"]}, True),
    (MAP, {"x": None}),
    ({**MAP, "patternProperties": {"^x": {"type": "string"}}}, {"x": "5"}),
    ({"allOf": [NESTED, {"patternProperties": {"^x": {}}}, MAP]}, {"x": "5"}),
    ({"additionalProperties": False, "anyOf": [{"type": "object"}, NESTED]}, {"count": "3"}),
    ({"type": "string"}, "50"),
    ({"type": ["string", "integer"]}, "50"),
    ({"anyOf": [{"type": "string"}, {"type": "integer"}]}, "50"),
    (STRINGS, "a"),
    (STRINGS, '{"a": 1}'),
    (STRINGS, "[1"),
    ({}, "50"),
    ({"enum": ["50"]}, "50"),
    (OPTIONAL, None),
]


@pytest.mark.parametrize(("schema", "given", "expected"), CONVERTED)
def test_what_loses_nothing_is_converted(schema: dict[str, Any], given: Any, expected: Any) -> None:
    found = coerce_arguments({"properties": {"it": schema}}, {"it": given})["it"]
    assert (found, type(found)) == (expected, type(expected))


@pytest.mark.parametrize(("schema", "given"), KEPT)
def test_anything_else_stays_as_it_is(schema: dict[str, Any], given: Any) -> None:
    found = coerce_arguments({"properties": {"it": schema}}, {"it": given})["it"]
    assert (found, type(found)) == (given, type(given))


@pytest.mark.parametrize(
    ("schema", "left_out"),
    [
        ({"allOf": [INTEGER], "default": 3}, True),
        ({"enum": ["x", "y"]}, True),
        ({"const": "x"}, True),
        ({"oneOf": [{"const": "x"}, {"const": 1}]}, True),
        ({"allOf": [{"enum": ["x"]}, {"description": "One."}]}, True),
        ({"type": ["string", "null"], "enum": ["x", "y"]}, True),
        ({"type": ["string", "null"], "const": "x"}, True),
        ({"type": ["string", "null"], "anyOf": [{"enum": ["x"]}, {"const": "y"}]}, True),
        ({"allOf": [{"type": ["string", "null"]}, {"enum": ["x"]}]}, True),
        ({"anyOf": [{"type": ["string", "null"], "enum": ["x"]}, {"type": "integer"}]}, True),
        ({"type": "string", "enum": ["x", None]}, True),
        ({"type": ["string", "null"], "enum": ["x", None]}, False),
        ({"type": ["string", "null"], "anyOf": [{"minLength": 1}, {"pattern": "x"}]}, False),
        ({"enum": ["x", None]}, False),
        ({"oneOf": [{"const": "x"}, {"type": "null"}]}, False),
        ({"oneOf": [{"const": "x"}, {}]}, False),
    ],
)
def test_null_is_left_out_where_the_type_is_found_in_parts(schema: dict[str, Any], left_out: bool) -> None:
    assert coerce_arguments({"properties": {"it": schema}}, {"it": None}) == ({} if left_out else {"it": None})


def test_null_is_left_out_only_where_the_field_may_be() -> None:
    schema = {"properties": {"a": INTEGER, "b": INTEGER, "c": OPTIONAL, "d": {}}, "required": ["b"]}
    given = dict.fromkeys("abcde")
    assert coerce_arguments(schema, given) == {"b": None, "c": None, "d": None, "e": None}


@pytest.mark.parametrize(
    ("given", "seen"),
    [
        ({"limit": "50"}, {"limit": 50}),
        ({"limit": 50, "all": "true"}, {"limit": 50, "all": True}),
        ({"limit": 50, "all": None}, {"limit": 50}),
        ({"limit": "many"}, 'limit: must be of type integer, not "many"'),
        ({"limit": None}, "limit: must be of type integer, not null"),
        ({"limit": "0"}, "limit: minimum is 1"),
    ],
)
async def test_every_call_passes_through_it(context: ToolContext, given: dict[str, Any], seen: Any) -> None:
    parameters = {
        "type": "object",
        "properties": {"limit": {"type": "integer", "minimum": 1}, "all": {"type": "boolean"}},
        "required": ["limit"],
        "additionalProperties": False,
    }

    async def run(arguments: Any, _: ToolContext) -> Any:
        return dict(arguments)

    for source in ("builtin", "mcp", "custom"):
        tool = Tool(ToolSpec("it", "It.", parameters, source=source), run)  # pyright: ignore[reportArgumentType]
        result = await ToolRegistry((tool,)).snapshot().run("it", given, context)
        assert isinstance(result, ToolResult)
        assert (result.data if result.type == "output" else result.error_text) == seen


MANY: dict[str, Any] = {"anyOf": [{"type": "integer"}] * 1500}
MANY_MEMBERS: dict[str, Any] = {"allOf": [{"properties": {f"n{number}": INTEGER}} for number in range(1500)]}
ALL_REQUIRED = {"properties": {f"n{number}": INTEGER for number in range(1500)}, "required": [*"xyz"] * 1500}


@pytest.mark.parametrize(
    ("schema", "value", "converted"),
    [
        ({"type": "array", "items": MANY}, ["1"] * 2000, [1] * 2000),
        ({"type": "object", "additionalProperties": MANY}, dict.fromkeys(map(str, range(2000)), "1"), None),
        ({"type": "array", "items": MANY_MEMBERS}, [{"n7": "1"}] * 2000, [{"n7": 1}] * 2000),
        ({"type": "array", "items": ALL_REQUIRED}, [{"n1499": "1"}] * 20_000, [{"n1499": 1}] * 20_000),
    ],
    ids=["items", "members", "parts", "required"],
)
def test_many_values_of_a_schema_with_many_parts_take_no_time(
    schema: dict[str, Any], value: Any, converted: Any
) -> None:
    began = time.process_time()
    found = coerce_arguments({"properties": {"a": schema}}, {"a": value})["a"]
    assert time.process_time() - began < 0.5, "it takes seconds if each value looks at each part"
    assert found == (converted or dict.fromkeys(value, 1))
