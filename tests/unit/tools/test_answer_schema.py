"""Which JSON Schemas a caller may give for an answer, and that a check against an accepted one always ends."""

from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from agent_runtime.tools.core.answer_schema import MAX_SCHEMA_CHARACTERS, answer_schema_fault
from agent_runtime.tools.core.linear_patterns import compile_pattern, pattern_fault
from agent_runtime.tools.core.schema import argument_faults


class Node(BaseModel):
    name: str = Field(pattern="^[a-z]+$")
    children: list[Node] = []


class Report(BaseModel):
    tree: Node
    notes: dict[str, int | None] = {}


def of(schema: object) -> dict[str, Any]:
    return {"type": "object", "properties": {"x": schema}}


def nested(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {}
    for _ in range(levels):
        schema = {"properties": {"x": schema}}
    return schema


@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"type": ["object", "null"]},
        {"$schema": "https://json-schema.org/draft/2020-12/schema", **of({"type": "integer"})},
        Report.model_json_schema(),
        Node.model_json_schema(),
        of({"$ref": "#/properties/y~1z"}) | {"properties": {"x": {"$ref": "#/properties/y~1z"}, "y/z": {}}},
        of({"properties": {"$ref": {"const": "http://elsewhere"}, "pattern": {"type": "string"}}}),
        of({"const": {"$ref": "http://elsewhere"}}),
        nested(15),
    ],
)
def test_these_are_accepted(schema: dict[str, Any]) -> None:
    assert answer_schema_fault(schema) is None


@pytest.mark.parametrize(
    ("schema", "path", "text"),
    [
        ({"type": "array"}, "type", "must be object"),
        (of({"type": "strnig"}), "properties.x.type", "'strnig'"),
        (of({"enum": ["x" * MAX_SCHEMA_CHARACTERS]}), "", "at most 32768"),
        (nested(20), "properties.x." * 16 + "properties.x", "at most 16"),
        (of({"$ref": "http://127.0.0.1:9/schema.json"}), "properties.x.$ref", "inside this one"),
        (of({"$ref": "file:///etc/passwd"}), "properties.x.$ref", "inside this one"),
        (of({"$ref": "#/$defs/missing"}), "properties.x.$ref", "inside this one"),
        (of({"$ref": "#/properties/x/default", "default": {}}), "properties.x.$ref", "inside this one"),
        (of({"$ref": 3}), "properties.x.$ref", "inside this one"),
        (of({"$dynamicRef": "http://elsewhere"}), "properties.x.$dynamicRef", "use $ref"),
        (of({"$id": "http://elsewhere"}), "properties.x.$id", "leave it out"),
        (of({"$schema": "http://json-schema.org/draft-07/schema#"}), "properties.x.$schema", "at the top only"),
        ({"$ref": "#"}, "$ref", "leads back to itself"),
        ({"anyOf": [{}, {"not": {"$ref": "#/anyOf/1"}}]}, "anyOf.1.not.$ref", "leads back to itself"),
        (of({"pattern": "["}), "properties.x.pattern", "unclosed"),
        (of({"pattern": "(?=a)b"}), "properties.x.pattern", "look-around"),
        (of({"items": {"pattern": "(a)\\1"}}), "properties.x.items.pattern", "backreferences"),
        (of({"pattern": "[ab]*a([ab]{0,100}){0,1000}c"}), "properties.x.pattern", "is too large"),
        (of({"patternProperties": {"(a+)+$": {}}}), "properties.x.patternProperties", "propertyNames"),
        ({"properties": {f"p{n}": {"pattern": rf"\w{{1,6}}{n}"} for n in range(900)}}, "", "took longer than 0.5 s"),
    ],
)
def test_these_are_refused_by_name_and_at_once(schema: dict[str, Any], path: str, text: str) -> None:
    began = time.process_time()
    fault = answer_schema_fault(schema)
    assert fault is not None
    assert fault[0] == path
    assert text in fault[1]
    assert time.process_time() - began < 5


KEYWORDS = st.sampled_from(["not", "items", "if", "then", "additionalProperties"])
PLACES = st.sampled_from(["#", "#/$defs/a", "#/$defs/b", "#/$defs/a/not", "#/properties/x"])
SCHEMAS = st.recursive(
    st.just({}) | PLACES.map(lambda place: {"$ref": place}) | st.just({"type": "integer"}),
    lambda inner: (
        st.dictionaries(KEYWORDS, inner, min_size=1)
        | st.lists(inner, min_size=1, max_size=3).map(lambda several: {"anyOf": several})
        | st.lists(inner, min_size=1, max_size=3).map(lambda several: {"allOf": several})
        | inner.map(lambda one: {"properties": {"x": one}})
    ),
    max_leaves=8,
)
VALUES = st.recursive(st.none() | st.integers(), lambda inner: st.lists(inner) | st.dictionaries(st.text("xy"), inner))


@given(root=SCHEMAS, a=SCHEMAS, b=SCHEMAS, value=st.dictionaries(st.text("xy"), VALUES))
def test_a_check_against_an_accepted_schema_ends(
    root: dict[str, Any], a: dict[str, Any], b: dict[str, Any], value: dict[str, Any]
) -> None:
    schema = {**root, "$defs": {"a": a, "b": b}}
    if answer_schema_fault(schema) is None:
        assert not any("nested too deep" in fault for fault in argument_faults(schema, value))


def test_a_pattern_is_matched_in_linear_time() -> None:
    began = time.process_time()
    schema = of({"type": "string", "pattern": "^(a+)+$"})
    assert argument_faults(schema, {"x": "a" * 3000}) == []
    assert argument_faults(schema, {"x": "a" * 3000 + "b"}) == ["x: must match the pattern ^(a+)+$"]
    assert argument_faults(schema, {"x": "a" * 400_000}) == []
    too_long = argument_faults(schema, {"x": "a" * 400_001})
    assert too_long == ["x: is too long to match the pattern ^(a+)+$: at most 400000 characters"]
    assert argument_faults(schema, {"x": 3}) == ["x: must be of type string, not 3"]
    assert time.process_time() - began < 5


@pytest.mark.parametrize(
    ("pattern", "most"),
    [
        ("^# ", 400_000),
        ("^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$", 400_000),
        (r"^\d{4}-\d{2}-\d{2}$", 40_000),
        ("[abc]*a([abc]{0,90}){0,100}d", 4_000),
    ],
)
def test_the_larger_a_pattern_the_shorter_its_texts(pattern: str, most: int) -> None:
    compiled = compile_pattern(pattern)
    assert compiled.max_characters == most
    began = time.process_time()
    compiled.occurs_in("ab" * (most // 2 - 1) + "d")
    assert time.process_time() - began < 5


def test_a_pattern_of_a_skill_may_need_python() -> None:
    assert argument_faults(of({"pattern": "^(?!b)"}), {"x": "a"}) == []
    assert argument_faults(of({"pattern": "^(?!b)"}), {"x": "b"}) == ["x: 'b' does not match '^(?!b)'"]


def test_a_schema_that_names_its_dialect_stays_bounded() -> None:
    """The library would check what a reference to the top leads to with a class of its own, whose patterns are
    Python's."""
    dialect = "https://json-schema.org/draft/2020-12/schema"
    schema = {"$schema": dialect, "properties": {"x": {"pattern": "^(a+)+$"}, "next": {"$ref": "#"}}}
    began = time.process_time()
    assert argument_faults(schema, {"next": {"x": "a" * 40 + "b"}}) == ["next.x: must match the pattern ^(a+)+$"]
    assert time.process_time() - began < 5


@given(st.text("a*+?()[]{}|^$\\dw12,"))
def test_a_pattern_is_accepted_or_explained(pattern: str) -> None:
    assert pattern_fault(pattern) != ""


@pytest.mark.parametrize("schema", [{"type": [[], *range(5600)]}, {"dependencies": {"y": [[], *range(5600)]}}])
def test_a_list_of_strange_types_is_refused_at_once(schema: dict[str, Any]) -> None:
    """The library compares every pair of them, which takes a quarter of a minute."""
    began = time.process_time()
    assert answer_schema_fault(of(schema)) is not None
    assert time.process_time() - began < 5
