from __future__ import annotations

import asyncio
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from agent_runtime.tools import schema_fault
from agent_runtime.tools.core import schema, schema_bounds
from agent_runtime.tools.core.schema import argument_faults, check_arguments

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "path": {"type": "string", "minLength": 1},
        "limit": {"type": ["integer", "null"], "minimum": 1},
        "mode": {"enum": ["a", "b"]},
        "todos": {"type": "array", "items": {"type": "object", "required": ["content"]}},
    },
    "required": ["path"],
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"path": "x"}, []),
        ({}, ["path: is required"]),
        ({"path": 3}, ["path: must be of type string, not 3"]),
        ({"path": ""}, ["path: minLength is 1"]),
        ({"path": "x", "limit": "many"}, ['limit: must be of type integer or null, not "many"']),
        ({"path": "x", "limit": 0}, ["limit: minimum is 1"]),
        ({"path": "x", "mode": "c"}, ['mode: must be one of ["a", "b"], not "c"']),
        ({"path": "x", "file": 1}, ["file: no such field; there are: limit, mode, path, todos"]),
        ({"path": "x", "todos": [{"content": 1}, {}]}, ["todos[1].content: is required"]),
    ],
)
def test_faults_name_the_field_and_the_fix(arguments: dict[str, Any], told: list[str]) -> None:
    assert argument_faults(SCHEMA, arguments) == told


def test_a_fault_does_not_repeat_a_huge_value() -> None:
    (told,) = argument_faults(SCHEMA, {"path": ["x" * 10_000]})
    assert len(told) < 250


def test_faults_are_told_a_few_at_a_time() -> None:
    schema = {"type": "object", "properties": {f"p{n}": {"type": "string"} for n in range(50)}}
    assert len(argument_faults(schema, {f"p{n}": n for n in range(50)})) == 5


def test_other_keywords_are_explained_by_the_validator() -> None:
    schema = {
        "type": "object",
        "properties": {"n": {"multipleOf": 5}, "extra": {"additionalProperties": {"type": "null"}}},
    }
    assert argument_faults(schema, {"n": 3}) == ["n: 3 is not a multiple of 5"]
    assert argument_faults(schema, {"extra": {"x": 1}}) == ["extra.x: must be of type null, not 1"]


@pytest.mark.parametrize("reference", ["http://127.0.0.1:9/schema.json", "file:///etc/passwd"])
def test_a_reference_to_another_document_is_never_fetched(reference: str) -> None:
    with pytest.raises(Exception, match="Unresolvable"):
        argument_faults({"type": "object", "properties": {"x": {"$ref": reference}}}, {"x": 1})


@pytest.mark.parametrize(
    ("schema", "fault"),
    [
        ({"type": "object", "properties": {}}, None),
        ({"type": "array"}, "must be of type object"),
        ({}, "must be of type object"),
        ({"type": "object", "properties": {"x": {"type": "strnig"}}}, "properties.x.type: 'strnig' is not"),
        ({"type": "object", "required": True}, "required: True is not of type 'array'"),
    ],
)
def test_what_cannot_be_a_schema_is_told(schema: dict[str, Any], fault: str | None) -> None:
    told = schema_fault(schema)
    assert told == fault if fault is None or told is None else fault in told


def test_a_schema_without_a_bottom_is_told() -> None:
    schema: dict[str, Any] = {"type": "object"}
    for _ in range(2000):
        schema = {"type": "object", "properties": {"x": schema}}
    assert schema_fault(schema) == "the schema is nested too deep"


def test_what_is_made_for_the_first_check_is_not_of_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(schema_bounds, "time", SimpleNamespace(monotonic=lambda: now[0]))
    made = vars(schema)["_dialect_validator"]()

    def make_slowly() -> Any:
        now[0] += 2
        return made

    monkeypatch.setattr(schema, "_dialect_validator", make_slowly)
    assert schema_fault(SCHEMA) is None


async def test_a_check_that_takes_for_ever_is_given_up() -> None:
    always = {"type": "array", "items": {"not": {"anyOf": [{"type": "null"}] * 500}}}
    told = await check_arguments({"type": "object", "properties": {"a": always}}, {"a": [1] * 20_000})
    assert told == ["arguments: the check took longer than 0.5 s; give less"]


async def test_a_long_check_rests_so_that_others_have_their_turn() -> None:
    always = {"type": "array", "items": {"not": {"anyOf": [{"type": "null"}] * 500}}}
    before = sys.getswitchinterval()
    sys.setswitchinterval(10)  # a thread that does not release the interpreter keeps it
    try:
        check = asyncio.ensure_future(
            check_arguments({"type": "object", "properties": {"a": always}}, {"a": [1] * 2000})
        )
        turns = 0
        while not check.done():
            await asyncio.sleep(0.001)
            turns += 1
    finally:
        sys.setswitchinterval(before)
    assert await check == ["arguments: the check took longer than 0.5 s; give less"]
    assert turns > 3  # none, if the check kept the interpreter


async def test_a_check_ends_with_the_faults_that_are_told() -> None:
    never = {"type": "array", "items": {"anyOf": [{"type": "null"}] * 50}}
    told = await check_arguments({"type": "object", "properties": {"a": never}}, {"a": [1] * 20_000})
    assert told == [f"a[{n}]: 1 is not valid under any of the given schemas" for n in range(5)]


@pytest.mark.parametrize(
    ("items", "good"), [([{"n": n} for n in range(5000)], True), ([1, 1.0], False), ([1, True], True)]
)
async def test_items_are_unique_at_little_cost(items: list[object], good: bool) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "array", "uniqueItems": True}}}
    assert await check_arguments(schema, {"a": items}) == ([] if good else ["a: must not have an item twice"])
