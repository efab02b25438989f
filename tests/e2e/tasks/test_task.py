"""An orchestrator: `/task`, `/task/{id}` and `/result`, field by field."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from agent_testing import Call, Hang, Say

from ..live import Runtime, assert_problem, assignment, eventually, fresh, types

USAGE = {"input", "output", "reasoning", "cache_read", "cache_write", "cost_usd"}
RESULT = {
    *("task_id", "status", "result", "error", "error_code", "limit", "promote_to_blackboard"),
    *("tokens_used", "duration_ms", "usage", "session_id"),
}
RECORD = RESULT | {"created_at", "started_at", "finished_at", "attempts"}


def test_a_task_is_accepted_run_and_answered(agent: Runtime) -> None:
    agent.provider.script.replace([Say("All is well.")])
    body = assignment(input_data={"file": "orders.csv"}, context={"currency": "EUR"})

    reply = agent.post("/task", body)

    assert reply.status_code == 202
    accepted = reply.json()
    assert accepted.keys() == {"accepted", "task_id", "session_id", "status", "queued_behind"}
    assert accepted["accepted"] is True
    assert accepted["task_id"] == body["task_id"]
    assert accepted["session_id"].startswith("ses_")
    assert accepted["queued_behind"] == 0

    result = agent.result(body["task_id"])
    assert result.keys() == RESULT
    assert (result["task_id"], result["status"], result["result"]) == (
        body["task_id"], "complete", {"text": "All is well."},
    )  # fmt: skip
    assert (result["error"], result["error_code"], result["limit"]) == (None, None, None)
    assert result["promote_to_blackboard"] == {}
    assert result["session_id"] == accepted["session_id"]
    assert result["usage"].keys() == USAGE
    assert result["tokens_used"] == result["usage"]["input"] + result["usage"]["output"] > 0
    assert result["usage"]["output"] == 3
    assert result["usage"]["cost_usd"] is None

    record = agent.record(body["task_id"])
    assert record.keys() == RECORD
    assert {name: record[name] for name in RESULT} == result
    assert record["created_at"] <= record["started_at"] <= record["finished_at"]
    assert record["attempts"] == 1

    asked = agent.provider.completions[0]
    assert "orders.csv" in asked.last_user_text
    assert "EUR" in asked.last_user_text
    assert asked.json["stream"] is True
    assert asked.json["model"] == "default"


def test_a_task_without_an_id_gets_one(agent: Runtime) -> None:
    accepted = agent.post("/task", assignment(task_id=None)).json()
    assert accepted["task_id"].startswith("task_")
    assert agent.result(accepted["task_id"])["status"] == "complete"


def test_defaults_of_the_sheet_are_the_same_task_as_those_spelled_out(agent: Runtime) -> None:
    task_id = agent.assign()
    spelled = assignment(task_id=task_id, context={}, timeout=120, max_retries=0, token_budget=None)
    assert agent.post("/task", spelled).status_code == 200
    assert agent.post("/task", {**spelled, "timeout": 120.0}).status_code == 200
    assert agent.post("/task", {**spelled, "token_budget": None}).status_code == 200
    assert_problem(agent.post("/task", {**spelled, "token_budget": {}}), 409, "task_conflict")


@pytest.mark.parametrize("when", ["while it runs", "when it has ended"])
def test_the_same_task_again_gives_its_record(agent: Runtime, when: str) -> None:
    agent.provider.script.replace([Hang(reply=Say("once"))])
    body = assignment()
    first = agent.post("/task", body).json()
    agent.provider.wait_for(1)
    if when == "when it has ended":
        agent.provider.release()
        agent.result(body["task_id"])

    reply = agent.post("/task", body)

    assert reply.status_code == 200
    record = reply.json()
    assert record.keys() == RECORD
    assert record["session_id"] == first["session_id"]
    assert record["status"] == ("complete" if when == "when it has ended" else "running")
    agent.provider.release()
    assert agent.result(body["task_id"])["result"] == {"text": "once"}
    assert len(agent.provider.completions) == 1


def test_the_same_id_with_other_content_is_a_conflict(agent: Runtime) -> None:
    task_id = agent.assign(input_data={"n": 1})
    reply = agent.post("/task", assignment(task_id=task_id, input_data={"n": 2}))
    assert_problem(reply, 409, "task_conflict")
    agent.result(task_id)
    assert len(agent.provider.completions) == 1


def test_twenty_posts_at_once_run_once(agent: Runtime) -> None:
    agent.provider.script.replace([Say("once")])
    body, gate = assignment(), threading.Barrier(20)

    def post(_: int) -> int:
        gate.wait(10)
        return agent.post("/task", body).status_code

    with ThreadPoolExecutor(20) as pool:
        codes = sorted(pool.map(post, range(20)))

    assert codes == [200] * 19 + [202]
    assert agent.result(body["task_id"])["result"] == {"text": "once"}
    assert len(agent.provider.completions) == 1
    eventually(lambda: agent.status()["sessions"] == {"running": 0, "queued": 0, "waiting": 0})
    assert agent.post("/task", body).json()["attempts"] == 1


def test_an_idempotency_key_sets_no_limit_that_the_caller_did_not_set(agent: Runtime) -> None:
    """A cost limit on a model without a price is refused only where it was asked for."""
    body = {**assignment(token_budget={"max_tokens": 50_000}), "task_id": None}
    body = {key: value for key, value in body.items() if value is not None}
    assert agent.post("/task", body, **{"Idempotency-Key": fresh("key")}).status_code == 202


def test_the_idempotency_key_is_the_id_of_a_task_without_one(agent: Runtime) -> None:
    key, body = fresh("key"), assignment(task_id=None)
    headers = {"Idempotency-Key": key}
    first = agent.post("/task", body, **headers)
    assert (first.status_code, first.json()["task_id"]) == (202, key)
    assert agent.post("/task", body, **headers).status_code == 200
    assert_problem(agent.post("/task", {**body, "step_id": "other"}, **headers), 409, "task_conflict")
    named = assignment()
    assert agent.post("/task", named, **headers).json()["task_id"] == named["task_id"]
    quoted = agent.post("/task", body, **{"Idempotency-Key": f'"{key}"'})
    assert (quoted.status_code, quoted.json()["task_id"]) == (200, key)
    for wrong in ("a b", "order/7", '""'):
        refused = agent.post("/task", body, **{"Idempotency-Key": wrong})
        assert_problem(refused, 422, "invalid_request", "Idempotency-Key")


def test_results_with_and_without_an_id(agent: Runtime) -> None:
    with agent.client(Authorization="Bearer sesame", **{"X-Agent-User": fresh("user")}) as mine:
        assert_problem(mine.get("/result"), 404, "no_result")
        assert_problem(mine.get("/result", params={"task_id": "nobody"}), 404, "unknown_task")
        assert_problem(mine.get("/result", params={"taskId": "nobody"}), 422, "invalid_request", "taskId")
        agent.provider.script.replace([Say("first"), Say("second"), Hang(reply=Say("third"))])
        ids = [fresh("task") for _ in range(3)]
        for task_id in ids[:2]:
            assert mine.post("/task", json=assignment(task_id=task_id)).status_code == 202
            assert mine.get("/result", params={"task_id": task_id, "wait": 10}).status_code == 200
        assert mine.get("/result").json()["task_id"] == ids[1]
        mine.post("/task", json=assignment(task_id=ids[2]))
        agent.provider.wait_for(3)

        under_way = mine.get("/result", params={"task_id": ids[2]})
        assert under_way.status_code == 202
        assert under_way.json()["status"] == "running"
        waited = mine.get("/result", params={"task_id": ids[2], "wait": 0.05})
        assert (waited.status_code, waited.json()["status"]) == (202, "running")
        assert mine.get("/result").json()["result"] == {"text": "second"}
        agent.provider.release()
        assert mine.get("/result", params={"task_id": ids[2], "wait": 10}).json()["result"] == {"text": "third"}
        assert mine.get("/result").json()["task_id"] == ids[2]


@pytest.mark.parametrize("wait", ["-1", "601", "soon", "nan", "inf"])
def test_a_wait_that_makes_no_sense_is_named(agent: Runtime, wait: str) -> None:
    task_id = agent.assign()
    assert_problem(agent.get("/result", task_id=task_id, wait=wait), 422, "invalid_request", "wait")


def test_an_unknown_task_is_404_on_every_route(agent: Runtime) -> None:
    assert_problem(agent.get("/task/nobody"), 404, "unknown_task")
    assert_problem(agent.get("/task/nobody/stream"), 404, "unknown_task")
    assert_problem(agent.http.post("/task/nobody/cancel"), 404, "unknown_task")


def test_a_running_task_is_cancelled_within_a_second(agent: Runtime) -> None:
    agent.provider.script.replace([Hang(after=2, reply=Say("half of it and the rest"))])
    task_id = agent.assign()
    with agent.stream("GET", f"/task/{task_id}/stream") as watching:
        watching.until("text-delta")
        watching.until("text-delta")
        reply = agent.http.post(f"/task/{task_id}/cancel", timeout=1)
        assert types(watching.rest())[-1] == "abort"

    assert reply.status_code == 200
    record = reply.json()
    assert record.keys() == RECORD
    assert (record["status"], record["error_code"]) == ("cancelled", "cancelled")
    assert record["result"]["text"] == "half of "
    assert record["result"]["partial"] is True
    assert agent.http.post(f"/task/{task_id}/cancel").json() == record
    assert agent.result(task_id)["status"] == "cancelled"
    agent.still_works()


def test_cancelling_what_has_ended_changes_nothing(agent: Runtime) -> None:
    task_id = agent.assign()
    agent.result(task_id)
    before = agent.record(task_id)
    assert agent.http.post(f"/task/{task_id}/cancel").json() == before


def test_tasks_of_one_principal_are_unknown_to_another(agent: Runtime) -> None:
    agent.provider.script.replace([Say("for ann"), Say("for bob")])
    body = assignment()
    ann, bob = ({"X-Agent-User": fresh(name)} for name in ("ann", "bob"))
    assert agent.post("/task", body, **ann).status_code == 202
    for path in (f"/task/{body['task_id']}", f"/task/{body['task_id']}/stream", f"/result?task_id={body['task_id']}"):
        assert_problem(agent.http.get(path, headers=bob), 404, "unknown_task")
    assert_problem(agent.http.post(f"/task/{body['task_id']}/cancel", headers=bob), 404, "unknown_task")
    assert agent.http.get(f"/result?task_id={body['task_id']}&wait=10", headers=ann).json()["status"] == "complete"
    assert agent.post("/task", body, **bob).status_code == 202
    found = agent.http.get(f"/result?task_id={body['task_id']}&wait=10", headers=bob).json()
    assert found["result"] == {"text": "for bob"}


def test_a_task_uses_tools_on_real_files(agent: Runtime) -> None:
    agent.provider.script.replace([
        Call("write", {"path": "notes/list.txt", "content": "one\ntwo\n"}),
        Call("bash", {"command": "wc -l < notes/list.txt"}),
        Call("read", {"path": "notes/list.txt"}),
        Say('{"result": {"lines": 2}, "promote": {"file": "notes/list.txt"}}'),
    ])  # fmt: skip
    task_id = agent.assign()
    result = agent.result(task_id)
    assert (result["status"], result["result"]) == ("complete", {"lines": 2})
    assert result["promote_to_blackboard"] == {"file": "notes/list.txt"}
    assert (agent.data_dir / "workspace/notes/list.txt").read_text() == "one\ntwo\n"
    told = [message["content"] for message in agent.provider.completions[3].messages if message["role"] == "tool"]
    assert len(told) == 3
    assert '"stdout":"2\\n"' in told[1].replace(" ", "")
    assert "one" in told[2]
    with agent.stream("GET", f"/task/{task_id}/stream") as stream:
        assert types(stream.rest()).count("tool-output-available") == 3
