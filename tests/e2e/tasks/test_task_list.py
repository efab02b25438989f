"""`GET /tasks`: newest first, by user and status, a page at a time."""

from __future__ import annotations

from typing import Any

import pytest

from agent_testing import Fail, Hang, Say

from ..live import Runtime, assert_problem, assignment, fresh


def post(agent: Runtime, user: str, **more: Any) -> str:
    body = assignment(**more)
    assert agent.post("/task", body, **{"X-Agent-User": user}).status_code == 202
    return body["task_id"]


def page(agent: Runtime, header: str | None = None, **query: Any) -> dict[str, Any]:
    reply = agent.http.get("/tasks", params=query, headers={"X-Agent-User": header} if header else {})
    assert reply.status_code == 200, reply.text
    return reply.json()


def ids(agent: Runtime, header: str | None = None, **query: Any) -> list[str]:
    return [task["task_id"] for task in page(agent, header, **query)["tasks"]]


def wait_for(agent: Runtime, user: str, task_id: str) -> None:
    agent.http.get("/result", params={"task_id": task_id, "wait": 20}, headers={"X-Agent-User": user})


def test_pages_join_and_each_row_is_the_record(agent: Runtime) -> None:
    ann = fresh("ann")
    made = [post(agent, ann) for _ in range(5)]
    for task_id in made:
        wait_for(agent, ann, task_id)
    first = page(agent, ann, limit=3)
    rest = page(agent, ann, limit=3, after=first["next"])
    assert [task["task_id"] for task in first["tasks"] + rest["tasks"]] == made[::-1]
    assert "next" not in rest
    assert "next" not in page(agent, ann, limit=5), "a full page may be the last one"
    newest = dict(first["tasks"][0])
    assert newest.pop("user") == ann
    assert newest == agent.http.get(f"/task/{made[-1]}", headers={"X-Agent-User": ann}).json()


def test_they_are_of_one_user_or_of_all(agent: Runtime) -> None:
    ann, bob = fresh("ann"), fresh("bob")
    anns, bobs = post(agent, ann), post(agent, bob)
    assert (ids(agent, ann), ids(agent, bob)) == ([anns], [bobs])
    assert (ids(agent, user=ann), ids(agent, ann, user=ann)) == ([anns], [anns])
    assert ids(agent, limit=2) == [bobs, anns]
    refused = agent.http.get("/tasks", params={"user": bob}, headers={"X-Agent-User": ann})
    assert_problem(refused, 422, "invalid_request", "user")


def test_they_are_filtered_by_status(agent: Runtime) -> None:
    ann = fresh("ann")
    agent.provider.script.replace([Say("done"), Fail(400, "no"), Hang()])
    done = post(agent, ann)
    wait_for(agent, ann, done)
    failed = post(agent, ann)
    wait_for(agent, ann, failed)
    running = post(agent, ann)
    agent.provider.wait_for(3)
    assert ids(agent, ann, status="complete") == [done]
    assert ids(agent, ann, status=["failed", "complete"]) == [failed, done]
    assert ids(agent, ann, status=["running", "queued"]) == [running]


@pytest.mark.parametrize(
    ("query", "field"),
    [({"status": "done"}, "status.0"), ({"limit": 0}, "limit"), ({"after": "x"}, "after"), ({"state": "x"}, "state")],
)
def test_a_wrong_query_is_named(agent: Runtime, query: dict[str, str | int], field: str) -> None:
    assert_problem(agent.http.get("/tasks", params=query), 422, "invalid_request", field)
