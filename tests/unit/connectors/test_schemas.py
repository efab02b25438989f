from __future__ import annotations

import json
import math
import time
import tracemalloc
from typing import Any

import jsonschema
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from referencing import Registry

from agent_runtime.connectors.tools.schemas import MAX_SCHEMA_LENGTH, plain_text, simplify_schema
from agent_runtime.tools import schema_fault
from agent_runtime.tools.core.schema import argument_faults


def properties(**named: Any) -> dict[str, Any]:
    return {"type": "object", "properties": named}


def of(schema: dict[str, Any]) -> Any:
    """A schema as it is after it was the one property of an object."""
    return simplify_schema(properties(a=schema))["properties"]["a"]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"type": "string", "title": "A", "$comment": "x"}, {"type": "string"}),
        ({"type": "string", "pattern": "^a"}, {"type": "string", "description": "(pattern: ^a)"}),
        ({"type": ["string", "null"], "default": None}, {"type": ["string", "null"], "default": None}),
        ({"oneOf": [{"type": "string"}, {"const": 1}]}, {"anyOf": [{"type": "string"}, {"const": 1}]}),
        ({"not": {"type": "string"}}, {}),
        ({"minimum": "1", "maxLength": -1, "type": "banana", "enum": []}, {}),
        ({"minimum": math.nan, "maximum": math.inf, "const": -math.inf, "type": "number"}, {"type": "number"}),
        ({"default": {"a": [math.nan]}, "enum": [{}, math.inf], "minimum": 1}, {"minimum": 1}),
        ({"type": "array", "items": [{"type": "string"}]}, {"type": "array"}),
        ({"type": "array", "prefixItems": [{}], "items": False}, {"type": "array"}),
        ({"type": "object", "patternProperties": {"^x": {}}, "additionalProperties": False}, {"type": "object"}),
        ({"$ref": "https://example.org/schema"}, {}),
        ({"$ref": "#/properties/a"}, {}),
        ({"if": {"type": "string"}, "then": False}, {}),
        ({"type": "number", "multipleOf": 0.01}, {"type": "number"}),
        ({"type": "integer", "multipleOf": 5}, {"type": "integer", "multipleOf": 5}),
        ({"type": "string", "nullable": True}, {"type": ["string", "null"]}),
        ({"type": "string", "nullable": "true"}, {"type": "string"}),
        ({"type": ["string", "null"], "nullable": True}, {"type": ["string", "null"]}),
        ({"enum": ["a"], "nullable": True}, {"enum": ["a", None]}),
        ({"const": 1, "nullable": True, "default": 1}, {"anyOf": [{"const": 1}, {"type": "null"}], "default": 1}),
        (True, {}),
        (False, False),
    ],
)
def test_what_is_left(before: Any, after: Any) -> None:
    assert of(before) == after


FILE = {**properties(kind={"const": "file"}, id={"type": "integer"}, path={"type": "string"}), "required": ["path"]}
URL = {**properties(kind={"const": "url"}, id={"type": "string"}, url={"type": "string"}), "required": ["url"]}


@pytest.mark.parametrize("word", ["oneOf", "anyOf"])
@pytest.mark.parametrize("given", [{"kind": "url", "id": "a", "url": "x"}, {"kind": "file", "id": 1, "path": "x"}])
def test_alternatives_at_the_top_accept_what_one_of_them_does(word: str, given: dict[str, Any]) -> None:
    found = simplify_schema({"type": "object", word: [FILE, URL]})
    assert argument_faults(found, given) == []
    assert argument_faults(found, given | {"kind": "page"}) != []
    assert found["properties"]["path"] == {"type": "string"}


def test_references_are_filled_in() -> None:
    schema = {
        **properties(home={"$ref": "#/$defs/Place", "description": "Where"}, work={"$ref": "#/$defs/Place"}),
        "$defs": {"Place": {**properties(city={"type": "string"}), "required": ["city"], "description": "A place"}},
    }
    place = {**properties(city={"type": "string"}), "required": ["city"]}
    assert simplify_schema(schema)["properties"] == {
        "home": {**place, "description": "Where"},
        "work": {**place, "description": "A place"},
    }


@pytest.mark.parametrize("beside", [{"$ref": "#/$defs/P"}, {"allOf": [{"$ref": "#/$defs/P"}]}, {"$ref": "#/$defs/Q"}])
def test_a_reference_may_be_null(beside: dict[str, Any]) -> None:
    definitions = {"P": properties(city={"type": "string"}), "Q": {"enum": ["home", "work"]}}
    found = simplify_schema({**properties(place={**beside, "nullable": True}), "nullable": True, "$defs": definitions})
    assert argument_faults(found, {"place": None}) == []
    assert argument_faults(found, {"place": 7}) != []


def test_what_leads_round_ends_somewhere() -> None:
    tree = {
        "$ref": "#/$defs/Tree",
        "$defs": {"Tree": properties(left={"$ref": "#/$defs/Tree"}, size={"type": "integer"})},
    }
    assert simplify_schema(tree) == properties(left={}, size={"type": "integer"})


def test_the_top_is_an_object_without_alternatives() -> None:
    one, two = properties(a={"type": "string"}), {**properties(b={"type": "integer"}), "required": ["b"]}
    assert simplify_schema({"anyOf": [one, two]}) == properties(a={"type": "string"}, b={"type": "integer"})
    assert simplify_schema({"allOf": [one, two]})["required"] == ["b"]
    assert simplify_schema({}) == properties()
    assert simplify_schema({"type": ["object", "null"], "enum": [{}]}) == properties()


def test_what_is_too_large_loses_its_depths_and_then_everything() -> None:
    deep: dict[str, Any] = {"type": "string", "description": "x" * 200}
    wide = properties(**{f"p{n}": properties(**{f"q{m}": properties(r=deep) for m in range(30)}) for n in range(30)})
    found = simplify_schema(wide)
    assert len(json.dumps(found)) <= MAX_SCHEMA_LENGTH
    assert set(found["properties"]) == set(wide["properties"])


@pytest.mark.parametrize("word", ["default", "const", "enum"])
def test_a_large_value_is_dropped_alone(word: str) -> None:
    schema = {"type": "string", "description": "short"}
    assert of({**schema, word: ["x" * 4000]}) == {**schema, word: ["x" * 4000]}
    assert of({**schema, word: ["x" * 5000]}) == schema


def repeated(definition: Any, **beside: Any) -> dict[str, Any]:
    """A schema with 1500 references to one definition."""
    return {**properties(a={"anyOf": [{"$ref": "#/$defs/it"}] * 1500}), "$defs": {"it": definition}, **beside}


COSTLY: dict[str, dict[str, Any]] = {
    "a large value": repeated({"default": "x" * 500_000}),
    "a value of a permitted size": repeated({"default": "x" * 4000}),
    "many names": repeated(properties(**{f"p{n}": {} for n in range(20_000)})),
    "many words": repeated({f"p{n}": {} for n in range(20_000)}),
    "much that is required": repeated({**properties(a={}), "required": ["a"] * 20_000}),
    "a version that is no text": repeated({}, **{"$schema": ["x"] * 40_000}),
    "a long pointer": properties(a={"anyOf": [{"$ref": "#" + "/a" * 500_000}] * 1500}),
}


@pytest.mark.parametrize("schema", COSTLY.values(), ids=COSTLY)
def test_references_multiply_no_cost(schema: dict[str, Any]) -> None:
    began = time.process_time()
    found = simplify_schema(schema)
    spent = time.process_time() - began
    tracemalloc.start()
    simplify_schema(schema)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(json.dumps(found)) <= MAX_SCHEMA_LENGTH
    assert spent < 3
    assert peak < 8 * 2**20


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.text("ab", max_size=2),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
    max_leaves=6,
)
KEYWORDS = {
    "type": st.sampled_from(["string", "integer", "object", "array", "null", "banana", ["string", "null"], 7]),
    "enum": st.lists(VALUES, max_size=3),
    "const": VALUES,
    "minimum": st.integers(-3, 3),
    "maxLength": st.integers(-1, 3),
    "pattern": st.sampled_from(["^a", "b$"]),
    "required": st.lists(st.sampled_from("ab"), max_size=2),
    "uniqueItems": st.booleans(),
}
ODD_KEYWORDS = {
    "default": VALUES,
    "format": st.sampled_from(["date", "", 3]),
    **dict.fromkeys(("minimum", "exclusiveMaximum"), st.integers(-3, 3) | st.booleans() | st.none()),
    "multipleOf": st.sampled_from([-1, 0, 0.5, 2, True]),
    **dict.fromkeys(("maxLength", "minItems", "minProperties"), st.integers(-1, 3) | st.sampled_from([1.5, True])),
}
AWAY = ["#/nothing", "https://example.org/x"]


def schemas(*refs: str) -> st.SearchStrategy[Any]:
    """Schemas that refer to these. None leads round: what is compared with would never come to an end."""
    words = {**KEYWORDS, "$ref": st.sampled_from([*refs, *AWAY])}
    return st.recursive(
        st.booleans() | st.fixed_dictionaries({}, optional=words),
        lambda inner: st.fixed_dictionaries(
            {},
            optional={
                **words,
                "properties": st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
                "additionalProperties": inner,
                "patternProperties": st.dictionaries(st.sampled_from(["a", "b"]), inner, max_size=1),
                "items": inner,
                **dict.fromkeys(("anyOf", "oneOf", "allOf"), st.lists(inner, min_size=1, max_size=2)),
                "not": inner,
                "if": inner,
                "then": inner,
            },
        ),
        max_leaves=8,
    )


@given(
    schemas("#/$defs/one", "#/$defs/two"),
    schemas("#/$defs/two"),
    schemas(),
    st.dictionaries(st.sampled_from("ab"), VALUES, max_size=2),
)
def test_whatever_the_server_takes_we_take(top: Any, one: Any, two: Any, arguments: dict[str, Any]) -> None:
    whole = {"type": "object", **(top if isinstance(top, dict) else {}), "$defs": {"one": one, "two": two}}
    found = simplify_schema(whole)
    assert schema_fault(found) is None
    assert "$ref" not in json.dumps(found)
    try:
        jsonschema.Draft202012Validator.check_schema(whole)
        takes = jsonschema.Draft202012Validator(whole, registry=Registry()).is_valid(arguments)
    except Exception:  # noqa: BLE001  it is no schema, or refers to nothing
        takes = False
    assume(takes)
    assert jsonschema.Draft202012Validator(found).is_valid(arguments), found


@given(st.fixed_dictionaries({}, optional={**KEYWORDS, **ODD_KEYWORDS}))
def test_what_is_kept_is_valid(part: dict[str, Any]) -> None:
    assert schema_fault(simplify_schema({**part, **properties(a=part, b={"items": part, "anyOf": [part]})})) is None


def test_texts_are_one_line_that_shows_all_it_says() -> None:
    assert plain_text("a\n  b\tc\u200bd\U000e0041\u202e e") == "a b cd e"
    assert plain_text("x" * 300) == "x" * 197 + "..."
    assert plain_text("\x00" * 10_000) == ""


@given(*[schemas("#", "#/$defs/one", "#/$defs/two")] * 3)
def test_whatever_leads_round_comes_to_an_end(top: Any, one: Any, two: Any) -> None:
    found = simplify_schema({**(top if isinstance(top, dict) else {}), "$defs": {"one": one, "two": two}})
    assert schema_fault(found) is None
    assert "$ref" not in json.dumps(found)
    assert len(json.dumps(found)) <= MAX_SCHEMA_LENGTH
