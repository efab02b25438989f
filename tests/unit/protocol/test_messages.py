"""What callers may send, what we answer, and the rules over both."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from agent_common.protocol import (
    ChatRequest,
    Problem,
    TaskAssignment,
    TaskRecord,
    TokenBudget,
    Usage,
    UseChatRequest,
    is_assignment,
    json_schemas,
)

TASK: dict[str, Any] = {"task_id": "t", "workflow_id": "w", "step_id": "s", "task_type": "x", "input_data": {"a": 1}}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


def task(**more: Any) -> TaskAssignment:
    return TaskAssignment.model_validate_json(json.dumps({**TASK, **more}))


def shuffled(value: Any) -> Any:
    """The same JSON with its members in another order."""
    if isinstance(value, dict):
        return {key: shuffled(value[key]) for key in reversed(list(value))}
    return [shuffled(one) for one in value] if isinstance(value, list) else value


@given(st.dictionaries(st.text(max_size=3), JSON, max_size=4))
def test_the_fingerprint_is_of_the_content(data: dict[str, Any]) -> None:
    one, other = task(input_data=data), task(input_data=shuffled(data), task_id="another")
    assert one.fingerprint() == other.fingerprint()
    assert one.fingerprint() != task(input_data={**data, "more": 1}).fingerprint() or "more" in data
    again = TaskAssignment.model_validate_json(one.model_dump_json())
    assert again.fingerprint() == one.fingerprint()


@pytest.mark.parametrize(
    ("content", "meant"),
    [
        ({"objective": "Count orders"}, True),
        ({"objective": "Count orders", "result_url": "https://example.org", "timeout": 900}, True),
        ({"input_data": {"n": 1}, "timeout": 30}, True),
        (TASK, True),
        ({**TASK, "tiemout": 30}, True),
        ({"objective": "Grow", "quarter": 3}, False),
        ({"input_data": {}, "output_data": {}}, False),
        ({"task_type": "sum", "timeout": 30}, False),
        ({}, False),
        (["objective"], False),
        ("objective", False),
    ],
)
def test_json_with_something_to_do_and_nothing_else_is_an_assignment(content: object, *, meant: bool) -> None:
    assert is_assignment(content) is meant


def test_the_fingerprint_is_taken_after_defaults() -> None:
    plain = task().fingerprint()
    assert task(timeout=120, max_retries=0, context={}, token_budget=None).fingerprint() == plain
    assert task(token_budget={}).fingerprint() == task(token_budget={"max_tokens": 500_000}).fingerprint() != plain
    assert task(timeout=121).fingerprint() != plain


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"task_id": ""}, "task_id"),
        ({"task_id": "a b"}, "task_id"),
        ({"task_id": "a\n"}, "task_id"),
        ({"workflow_id": ""}, "workflow_id"),
        ({"input_data": []}, "input_data"),
        ({"input_data": None}, "input_data"),
        ({"timeout": 0}, "timeout"),
        ({"timeout": "5"}, "timeout"),
        ({"timeout": True}, "timeout"),
        ({"max_retries": -1}, "max_retries"),
        ({"max_retries": 1.0}, "max_retries"),
        ({"token_budget": {"max_tokens": 0}}, "token_budget.max_tokens"),
        ({"token_budget": {"max_cost": 1}}, "token_budget.max_cost"),
        ({"unknown": 1}, "unknown"),
    ],
)
def test_a_wrong_assignment_is_refused_by_field(body: dict[str, Any], field: str) -> None:
    with pytest.raises(ValidationError) as caught:
        task(**body)
    assert {".".join(map(str, one["loc"])) for one in caught.value.errors()} == {field}


def test_what_says_nothing_to_do_is_told_what_is_missing() -> None:
    with pytest.raises(ValidationError, match="give an objective, or input_data"):
        TaskAssignment.model_validate_json("{}")


def test_an_assignment_gets_an_id_of_its_own() -> None:
    body = {key: value for key, value in TASK.items() if key != "task_id"}
    ids = {TaskAssignment.model_validate(body).task_id for _ in range(5)}
    assert len(ids) == 5


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"message": ""},
        {"message": "a", "parts": [{"type": "text", "text": "a"}]},
        {"parts": []},
        {"parts": [{"type": "image", "text": "a"}]},
        {"message": "a", "on_busy": "wait"},
        {"message": "a", "wait": 601},
        {"message": "a", "extra": 1},
    ],
)
def test_a_wrong_chat_is_refused(body: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        ChatRequest.model_validate_json(json.dumps(body))


def test_a_message_is_one_part() -> None:
    as_parts = ChatRequest.model_validate_json('{"parts": [{"type": "text", "text": "a"}]}')
    assert ChatRequest(message="a").content == as_parts.content


def test_half_characters_are_refused_at_the_door() -> None:
    with pytest.raises(ValidationError):
        ChatRequest.model_validate_json('{"message": "\\ud800"}')
    with pytest.raises(ValidationError):
        TaskAssignment.model_validate_json(json.dumps(TASK).replace('"a"', '"\\ud800"'))


def test_keys_of_later_versions_survive_in_a_frontends_body() -> None:
    body = {"id": "x", "messages": [{"id": "m", "role": "user", "parts": [], "new": 1}], "future": True}
    asked = UseChatRequest.model_validate(body)
    assert asked.model_dump()["messages"][0]["new"] == 1
    with pytest.raises(ValidationError):
        UseChatRequest.model_validate({"messages": []})


USAGES = st.builds(
    Usage,
    input=st.integers(0, 9),
    output=st.integers(0, 9),
    reasoning=st.integers(0, 9),
    cache_read=st.integers(0, 9),
    cache_write=st.integers(0, 9),
    cost_usd=st.none() | st.integers(0, 8).map(lambda cents: cents / 4),
)


@given(USAGES, USAGES, USAGES)
def test_usage_sums(one: Usage, two: Usage, three: Usage) -> None:
    assert one.plus(two) == two.plus(one)
    assert one.plus(two).total == one.total + two.total
    assert one.plus(two).plus(three).total == one.plus(two.plus(three)).total
    left = one.plus(two).minus(one)
    assert left.total == two.total
    costs_known = one.cost_usd is not None and two.cost_usd is not None
    assert not costs_known or left.cost_usd == two.cost_usd


def test_an_unknown_cost_makes_the_sum_unknown() -> None:
    assert Usage(input=1, cost_usd=1.0).plus(Usage(input=1)).cost_usd is None
    assert Usage().plus(Usage(input=1, cost_usd=1.0)).cost_usd == 1.0
    assert Usage().plus(Usage()).cost_usd is None


def test_every_message_has_a_schema_that_holds_it() -> None:
    schemas = json_schemas()
    for schema in schemas.values():
        jsonschema.Draft202012Validator.check_schema(schema)
    assert {"TaskAssignment", "TaskResult", "ChatRequest", "ChatReply", "AgentStatus", "Chunk"} <= set(schemas)
    jsonschema.validate(TASK, schemas["TaskAssignment"])
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**TASK, "extra": 1}, schemas["TaskAssignment"])
    record = TaskRecord(task_id="t", status="queued", created_at=1)
    jsonschema.validate(record.model_dump(mode="json"), schemas["TaskRecord"])
    jsonschema.validate(TokenBudget().model_dump(mode="json"), schemas["TokenBudget"])


def test_a_problem_carries_what_there_is_of_a_result() -> None:
    extra: dict[str, Any] = {"response": "half"}
    problem = Problem(title="T", status=502, detail="d", instance="/chat", code="c", **extra)
    assert problem.body() == {
        "type": "about:blank",
        "title": "T",
        "status": 502,
        "detail": "d",
        "instance": "/chat",
        "code": "c",
        "response": "half",
    }


def test_a_task_of_an_earlier_version_has_the_fingerprint_that_was_stored_with_it() -> None:
    """Fields that came later do not count while they are unset: else a task handed in again would be a conflict."""
    task = TaskAssignment(task_id="t", workflow_id="w", step_id="s", task_type="say", input_data={"n": 1})
    stored = "e652f11b4f8a535cc609669f325f2561ec83ac2cd9ff63cbb6b5255c59fc5f2a"
    assert task.fingerprint() == stored
    changed = [task.model_copy(update=more) for more in ({"result_schema": {}}, {"result_url": "https://a.example/"})]
    assert len({one.fingerprint() for one in (task, *changed)}) == 3
