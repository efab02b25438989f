"""A task needs an objective only: everything else has a default."""

from __future__ import annotations

from typing import Any

import pytest

from agent_testing import Say

from ..live import Runtime, assert_problem, fresh


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"objective": "Count the birds."}, ["Task of type task.", "Objective: Count the birds."]),
        ({"input_data": {"birds": 3}}, ["Task of type task.", '"birds": 3']),
        ({"objective": "Count.", "input_data": {"birds": 3}}, ["Objective: Count.", '"birds": 3']),
        ({"objective": "Count.", "workflow_id": "w", "step_id": "s"}, ["(workflow w, step s)"]),
    ],
)
def test_what_is_left_out_has_a_default(agent: Runtime, fields: dict[str, Any], words: list[str]) -> None:
    agent.provider.script.replace([Say('{"result": {"count": 3}}')])
    reply = agent.post("/task", fields)
    assert reply.status_code == 202, reply.text
    assert agent.result(reply.json()["task_id"])["result"] == {"count": 3}
    sent = agent.provider.requests[-1].last_user_text
    assert all(word in sent for word in words), sent


def test_the_same_task_is_the_same(agent: Runtime) -> None:
    agent.provider.script.replace([Say('{"result": {}}')])
    body = {"task_id": fresh("task"), "objective": "Count."}
    assert agent.post("/task", body).status_code == 202
    agent.result(body["task_id"])
    assert agent.post("/task", {**body, "workflow_id": "none"}).status_code == 200
    assert_problem(agent.post("/task", {**body, "objective": "Sum."}), 409, "task_conflict")


@pytest.mark.parametrize("fields", [{}, {"context": {"a": 1}}, {"objective": ""}, {"objective": None}])
def test_a_task_that_says_nothing_is_refused(agent: Runtime, fields: dict[str, Any]) -> None:
    reply = agent.post("/task", fields)
    assert reply.status_code == 422
    assert "objective" in reply.text
