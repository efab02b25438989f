"""A task whose result must fit a schema: accepted, corrected once, refused; over restarts and over the channel."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import BaseModel, Field, field_validator

from agent_client import Agent, InvalidRequest, InvalidResult, Limits, Notice, TaskFailed
from agent_testing import Call, Fail, Hang, Say

from ..conftest import Start
from ..live import TOKEN, Runtime, assignment, fresh


class Line(BaseModel):
    region: str = Field(pattern="^[A-Z]")
    total: float = Field(ge=0)


class Report(BaseModel):
    orders: int
    lines: list[Line] = []


GOOD = {"orders": 3, "lines": [{"region": "East", "total": 1.5}]}
WRONG = {"orders": "three", "lines": [{"region": "east", "total": 1.5}]}


def answer(result: object, **more: Any) -> Say:
    return Say(json.dumps({"result": result}), **more)


async def test_the_model_is_told_the_schema_and_its_result_comes_as_the_model(agent: Runtime, client: Agent) -> None:
    agent.provider.script.replace([answer(GOOD)])
    assert await client.run("Count the orders.", result=Report) == Report.model_validate(GOOD)
    (asked,) = agent.provider.completions
    assert json.dumps(Report.model_json_schema()) in asked.last_user_text
    assert "plain text" not in asked.last_user_text


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (answer(WRONG), 'lines[0].region: must match the pattern ^[A-Z]; orders: must be of type integer, not "three"'),
        (Say("There are three."), 'it is not one JSON object {"result": {...}'),
        (Say('{"orders": 3}'), 'it is not one JSON object {"result": {...}'),
        (Say('{"result": {"orders": NaN}}'), "orders: must be of type integer, not null"),
        (Say(""), "it is not one JSON object"),
        (answer({}, finish_reason="length"), "orders: is required"),
    ],
)
async def test_an_answer_that_does_not_fit_is_asked_for_once_more(
    agent: Runtime, client: Agent, given: Say, why: str
) -> None:
    empty = given.text == ""
    agent.provider.script.replace([given, *([given] if empty else []), answer(GOOD)])
    task = await client.submit("Count the orders.", result=Report)
    assert await task.result() == Report.model_validate(GOOD)
    outcome = await task.outcome()
    assert (outcome.status, outcome.limit, outcome.result) == ("complete", None, GOOD)
    first, *_, last = agent.provider.completions  # an empty answer is asked for again before it counts
    assert last.messages[: len(first.messages)] == first.messages
    assert why in last.messages[-1]["content"]
    (notice,) = [event async for event in task.events() if isinstance(event, Notice)]
    assert notice.data["reason"] == "invalid_result"


async def test_a_second_answer_that_does_not_fit_fails_the_task(agent: Runtime, client: Agent) -> None:
    agent.provider.script.replace([answer(WRONG), answer({"orders": 3.5})])
    with pytest.raises(InvalidResult, match=r"orders: must be of type integer, not 3\.5") as caught:
        await client.run("Count the orders.", result=Report)
    assert caught.value.code == "invalid_result"
    found = caught.value.result
    assert (found.status, found.error_code, found.limit) == ("failed", "invalid_result", None)
    assert found.result == {"orders": 3.5, "partial": True, "steps": 2, "tool_calls": 0}
    assert len(agent.provider.completions) == 2
    agent.still_works()


async def test_the_correction_may_use_tools_within_the_same_limits(start: Start) -> None:
    runtime = start(AGENT_MAX_ITERATIONS=3)
    look = Call("glob", {"pattern": "*"})
    async with Agent(runtime.url, TOKEN) as client:
        runtime.provider.script.replace([answer(WRONG), look, answer(GOOD)])
        assert await client.run("Count the orders.", result=Report) == Report.model_validate(GOOD)
        assert [one.json["tool_choice"] for one in runtime.provider.completions] == ["auto", "auto", "none"]
        runtime.provider.script.replace([look, look, answer(WRONG), answer(GOOD)])
        with pytest.raises(InvalidResult) as caught:  # the last step is an answer, and no step is left
            await client.run("Count the orders.", result=Report)
        assert caught.value.result.limit == "iterations"
        runtime.provider.script.replace([look, answer(WRONG), answer(GOOD)])
        assert await client.run("Count the orders.", result=Report) == Report.model_validate(GOOD)
        runtime.provider.script.replace([answer(WRONG, usage={"prompt_tokens": 900, "completion_tokens": 100})])
        with pytest.raises(TaskFailed) as spent:
            await client.run("Count the orders.", result=Report, limits=Limits(tokens=1000))
        assert spent.value.code == "budget_exhausted"


async def test_a_failure_of_the_correction_is_reported_as_what_it_is(agent: Runtime, client: Agent) -> None:
    agent.provider.script.replace([answer(WRONG), Fail(401, "no key")])
    with pytest.raises(TaskFailed) as caught:
        await client.run("Count the orders.", result=Report)
    assert caught.value.code == "model_auth"
    assert (caught.value.result.result or {})["orders"] == "three"


@pytest.mark.slow
async def test_a_death_in_the_correction_gives_no_further_one(start: Start) -> None:
    runtime = start()
    runtime.provider.script.replace([answer(WRONG), Hang()])
    async with Agent(runtime.url, TOKEN) as client:
        task = await client.submit("Count the orders.", result=Report)
        before = runtime.provider.wait_for(2)
        runtime.process.kill9()
    runtime.provider.script.replace([answer({}), answer(GOOD)])
    runtime.start()
    async with Agent(runtime.url, TOKEN) as client:
        with pytest.raises(InvalidResult, match="orders: is required"):
            await client.task(task.id, Report).result()
    repeated = runtime.provider.completions[2:]
    assert [one.messages for one in repeated] == [before[1].messages]
    assert sum("was not accepted" in str(message["content"]) for message in repeated[0].messages) == 1


async def test_what_the_callers_model_alone_refuses_is_an_invalid_result_too(agent: Runtime, client: Agent) -> None:
    class Even(BaseModel):
        orders: int

        @field_validator("orders")
        @classmethod
        def even(cls, value: int) -> int:
            if value % 2:
                raise ValueError("must be even")
            return value

    agent.provider.script.replace([answer({"orders": 3})])
    with pytest.raises(InvalidResult, match="orders: Value error, must be even") as caught:
        await client.run("Count the orders.", result=Even)
    assert (caught.value.code, caught.value.result.status) == ("invalid_result", "complete")


@pytest.mark.parametrize(
    ("schema", "field"),
    [
        ("object", "result_schema"),
        ({"type": "array"}, "result_schema.type"),
        ({"properties": {"x": {"$ref": "http://127.0.0.1:9/x"}}}, "result_schema.properties.x.$ref"),
        ({"properties": {"x": {"pattern": "(?=x)"}}}, "result_schema.properties.x.pattern"),
        ({"description": "x" * 40_000}, "result_schema"),
    ],
)
async def test_a_schema_that_cannot_be_used_is_refused_by_name(
    agent: Runtime, client: Agent, schema: object, field: str
) -> None:
    reply = agent.post("/task", assignment(result_schema=schema))
    assert reply.status_code == 422
    assert [fault["field"] for fault in reply.json()["errors"]] == [field]
    with pytest.raises(InvalidRequest) as caught:
        await client.run("Count the orders.", result=list[int])
    assert caught.value.field == "result_schema.type"


def test_the_schema_is_part_of_the_content_of_a_task(agent: Runtime) -> None:
    agent.provider.script.replace([answer(GOOD)])
    body = assignment(task_id=fresh("t"), result_schema={"required": ["orders"]})
    assert agent.post("/task", body).status_code == 202
    assert agent.post("/task", body).status_code == 200
    assert agent.post("/task", {**body, "result_schema": {"required": ["lines"]}}).status_code == 409
