"""For what `always` holds: one session, or all sessions of its user with the agent, until she takes it back."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from agent_testing import Call, Say, ScriptedProvider

from ..live import Runtime, assert_problem, eventually, fresh

ALLOW_LS = {"permission": "bash", "pattern": "ls *", "action": "allow"}
ANN = {"X-Agent-User": "ann"}
BEN = {"X-Agent-User": "ben"}
OPERATOR = """
rules:
  - {permission: bash, pattern: "ls forbidden", action: deny}
"""


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runtime]:
    """A runtime whose agents `bare` and `other` ask about every call."""
    data = tmp_path_factory.mktemp("always") / "data"
    (data / "agents").mkdir(parents=True)
    (data / "permissions.yaml").write_text(OPERATOR)
    for name in ("bare", "other"):
        (data / "agents" / f"{name}.yaml").write_text("description: Asks.\nmode: all\n")
    with ScriptedProvider() as provider, Runtime(provider, data) as runtime:
        yield runtime


@pytest.fixture(autouse=True)
def _nothing_is_allowed(agent: Runtime) -> Iterator[None]:
    yield
    for user in (ANN, BEN):
        for one in agent.http.get("/permissions", headers=user).json()["permissions"]:
            assert agent.http.delete(f"/permissions/{one['agent']}", headers=user).status_code == 200


def asks(agent: Runtime, command: str, user: dict[str, str] = ANN, /, **more: Any) -> dict[str, Any] | None:
    """What the call asks of a person, in a session of its own; None if it simply ran."""
    agent.provider.script.replace([Call("bash", {"command": command}), Say("done")])
    more = {"session_id": fresh("s"), "agent": "bare", **more}
    reply = agent.post("/chat", {"message": "run it", **more}, **user)
    if reply.status_code == 200:
        return None
    assert reply.status_code == 202, reply.text
    (pending,) = reply.json()["pending"]
    return {**pending, "session": more["session_id"]}


def answer(agent: Runtime, pending: dict[str, Any], user: dict[str, str] = ANN, /, **body: Any) -> httpx.Response:
    reply = agent.post(f"/chat/{pending['session']}/answer", {"id": pending["id"], **body}, **user)
    if reply.status_code == 200:
        path = f"/sessions/{pending['session']}"
        eventually(lambda: agent.http.get(path, headers=user).json()["status"]["state"] == "idle")
    return reply


def allow(agent: Runtime, command: str, /, **more: Any) -> str:
    """Answer a call of ann's with `always` for the agent; its session."""
    pending = asks(agent, command, **more)
    assert pending is not None
    reply = answer(agent, pending, decision="always", scope="agent")
    assert reply.status_code == 200, reply.text
    return pending["session"]


def kept(agent: Runtime, user: dict[str, str] = ANN, /, **params: str) -> list[tuple[str, str, str, str]]:
    """The rules of a user for agents."""
    reply = agent.http.get("/permissions", headers=user, params=params)
    assert reply.status_code == 200, reply.text
    return [
        (one["agent"], rule["permission"], rule["pattern"], rule["action"])
        for one in reply.json()["permissions"]
        for rule in one["rules"]
    ]


def test_always_for_the_agent_holds_in_her_other_sessions_with_it_and_nowhere_else(agent: Runtime) -> None:
    pending = asks(agent, "ls -l")
    assert pending is not None
    assert (pending["agent"], [rule["pattern"] for rule in pending["always"]]) == ("bare", ["ls *"])
    assert answer(agent, pending, decision="always", scope="agent").status_code == 200
    assert kept(agent) == [("bare", "bash", "ls *", "allow")]
    assert asks(agent, "ls -a") is None
    assert asks(agent, "stat .") is not None, "another program"
    assert asks(agent, "ls -a", agent="other") is not None
    assert asks(agent, "ls -a", BEN) is not None
    assert kept(agent, BEN) == []
    shown = agent.http.get(f"/sessions/{pending['session']}/permissions", headers=ANN).json()
    assert (shown["rules"], [rule["source"] for rule in shown["agent_rules"]]) == ([], ["agent"])


@pytest.mark.parametrize("said", [{}, {"scope": "session"}])
def test_always_holds_for_the_session_unless_she_says_otherwise(agent: Runtime, said: dict[str, str]) -> None:
    pending = asks(agent, "ls -l")
    assert pending is not None
    assert answer(agent, pending, decision="always", **said).status_code == 200
    assert asks(agent, "ls -a", session_id=pending["session"]) is None
    assert asks(agent, "ls -a") is not None
    assert kept(agent) == []


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"decision": "once", "scope": "agent"}, "scope"),
        ({"decision": "reject", "scope": "session"}, "scope"),
        ({"decision": "always", "scope": "project"}, "scope"),
        ({"decision": "always", "scope": None}, "scope"),
        ({"answers": [["yes"]], "scope": "agent"}, "scope"),
    ],
)
def test_a_scope_goes_with_always(agent: Runtime, body: dict[str, Any], field: str) -> None:
    pending = asks(agent, "ls -l")
    assert pending is not None
    assert_problem(answer(agent, pending, **body), 422, "invalid_request", field)
    assert answer(agent, pending, decision="reject").status_code == 200, "it still waits"
    assert kept(agent) == []


def test_she_sees_what_she_has_allowed_and_takes_it_back(agent: Runtime) -> None:
    allow(agent, "ls -l")
    allow(agent, "stat .")
    allow(agent, "ls -l", agent="other")
    bare = [("bare", "bash", "ls *", "allow"), ("bare", "bash", "stat *", "allow")]
    assert kept(agent) == [*bare, ("other", "bash", "ls *", "allow")]
    assert kept(agent, agent="bare") == bare
    one = agent.http.get("/permissions/bare", headers=ANN).json()
    assert (one["agent"], one["user"], one["manifest"]) == ("bare", "ann", [])
    assert [rule["source"] for rule in (*one["rules"], *one["project"])] == ["agent", "agent", "project"]
    left = agent.http.put("/permissions/bare", json={"rules": one["rules"][:1]}, headers=ANN)
    assert left.json()["rules"] == one["rules"][:1], "as it was returned, it is sent again"
    assert asks(agent, "stat .") is not None
    assert agent.http.delete("/permissions/bare", headers=ANN).json()["rules"] == []
    assert agent.http.delete("/permissions/bare", headers=ANN).status_code == 200, "twice is once"
    assert asks(agent, "ls -l") is not None
    assert kept(agent) == [("other", "bash", "ls *", "allow")]


def test_what_she_takes_back_is_gone_for_the_turn_that_runs(agent: Runtime) -> None:
    session = allow(agent, "ls -l")
    replies: list[int] = []

    def model(request: Any) -> Any:
        done = sum(message["role"] == "tool" for message in request.messages)
        if done == 2:  # one of the turn before, and the first of this one
            with agent.client() as person:
                replies.append(person.delete("/permissions/bare", headers=ANN | dict(agent.http.headers)).status_code)
        return Call("bash", {"command": "ls -a"}) if done < 3 else Say("over")

    agent.provider.script.replace(model)
    reply = agent.post("/chat", {"message": "twice", "session_id": session, "agent": "bare"}, **ANN)
    assert (reply.status_code, replies) == (202, [200]), reply.text
    assert [one["input"]["command"] for one in reply.json()["pending"]] == ["ls -a"]


def test_nothing_that_is_denied_is_allowed_and_a_session_may_be_stricter(agent: Runtime) -> None:
    session = allow(agent, "ls -l")
    agent.provider.script.replace([Call("bash", {"command": "ls forbidden"}), Say("no")])
    (output,) = agent.post("/chat", {"message": "go", "session_id": fresh("s"), "agent": "bare"}, **ANN).json()[
        "tool_outputs"
    ]
    assert output["output"] == "bash ls forbidden: a project rule for bash ls forbidden forbids it"
    stricter = {"rules": [{**ALLOW_LS, "action": "ask"}]}
    assert agent.http.put(f"/sessions/{session}/permissions", json=stricter, headers=ANN).status_code == 200
    pending = asks(agent, "ls -l", session_id=session)
    assert pending is not None
    assert pending["reason"] == "bash ls -l: a session rule for bash ls * asks for approval"
    assert asks(agent, "ls -l") is None


def test_where_nobody_would_be_asked_it_changes_nothing(agent: Runtime) -> None:
    allow(agent, "ls -l")
    agent.provider.script.replace([Call("bash", {"command": "ls -l"}), Say("no")])
    reply = agent.post("/task", {"task_id": fresh("t"), "input_data": {"ask": "run"}, "agent": "bare"}, **ANN)
    assert reply.status_code == 202, reply.text
    agent.http.get("/result", params={"task_id": reply.json()["task_id"], "wait": 30}, headers=ANN)
    refused = agent.provider.completions[-1].messages[-1]["content"]
    assert "needs a human's approval, and none is here" in refused


def test_an_agent_that_is_called_has_none_of_it(agent: Runtime) -> None:
    allow(agent, "ls -l")
    allow(agent, "ls -l", agent="other")
    (rule,) = [{"permission": "task", "pattern": "*", "action": "allow"}]
    assert agent.http.put("/permissions/bare", json={"rules": [ALLOW_LS, rule]}, headers=ANN).status_code == 200
    call = Call("task", {"subagent_type": "other", "prompt": "run it"})
    agent.provider.script.replace([call, Call("bash", {"command": "ls -l"}), Say("refused"), Say("over")])
    reply = agent.post("/chat", {"message": "go", "session_id": fresh("s"), "agent": "bare"}, **ANN)
    assert reply.status_code == 200, reply.text
    refused = agent.provider.completions[-2].messages[-1]["content"]
    assert "needs a human's approval, and none is here" in refused


@pytest.mark.parametrize(
    ("body", "fields"),
    [
        ({}, ["rules"]),
        ({"rules": [{**ALLOW_LS, "source": "session"}]}, ["rules.0.source"]),
        ({"rules": [ALLOW_LS] * 201}, ["rules"]),
        ({"rules": [], "scope": "agent"}, ["scope"]),
    ],
)
def test_what_is_wrong_with_her_rules_is_named(agent: Runtime, body: Any, fields: list[str]) -> None:
    reply = agent.http.put("/permissions/bare", json=body, headers=ANN)
    assert_problem(reply, 422, "invalid_request", *fields)
    for method in ("GET", "PUT", "DELETE"):
        reply = agent.http.request(method, "/permissions/nobody", json={"rules": []}, headers=ANN)
        assert_problem(reply, 404, "unknown_agent")
    assert_problem(agent.http.get("/permissions", params={"user": "ben"}, headers=ANN), 422, "invalid_request", "user")
    assert kept(agent) == []


def test_there_are_at_most_200_rules(agent: Runtime) -> None:
    many = [{**ALLOW_LS, "pattern": f"echo {number}"} for number in range(200)]
    assert agent.http.put("/permissions/bare", json={"rules": many}, headers=ANN).status_code == 200
    pending = asks(agent, "ls -l")
    assert pending is not None
    assert_problem(answer(agent, pending, decision="always", scope="agent"), 409, "too_many_rules")
    assert answer(agent, pending, decision="once").status_code == 200, "it still waits"
    assert len(kept(agent)) == 200
    many = [
        {**one, "pattern": "ls *" if number == 7 else one["pattern"], "action": "ask"}
        for number, one in enumerate(many)
    ]
    assert agent.http.put("/permissions/bare", json={"rules": many}, headers=ANN).status_code == 200
    pending = asks(agent, "ls -l")
    assert pending is not None
    assert answer(agent, pending, decision="always", scope="agent").status_code == 200, "in the place of one"
    assert len(kept(agent)) == 200


def test_the_sdk_says_it_beside_its_messages(agent: Runtime) -> None:
    pending = asks(agent, "ls -l")
    assert pending is not None
    said = {"id": pending["id"], "approved": True, "scope": "agent", "decision": "always"}
    part = {"type": "tool-bash", "toolCallId": pending["tool_call_id"], "state": "approval-responded", "approval": said}
    message = {"id": "r", "role": "assistant", "parts": [part]}
    body: dict[str, Any] = {"id": pending["session"], "messages": [message]}
    wrong = agent.post("/chat", {**body, "always": {pending["id"]: "project"}}, Accept="application/json", **ANN)
    assert_problem(wrong, 422, "invalid_request", f"always.{pending['id']}")
    assert agent.post("/chat", body, Accept="application/json", **ANN).status_code == 200
    assert kept(agent) == [], "what the messages say of it counts for nothing"
    for scope, rules in (("session", []), ("agent", [("bare", "bash", "ls *", "allow")])):
        again = asks(agent, "ls -l")
        assert again is not None
        part["toolCallId"], said["id"], body["id"] = again["tool_call_id"], again["id"], again["session"]
        body["always"] = {again["id"]: scope, pending["id"]: "agent"}
        assert agent.post("/chat", body, Accept="application/json", **ANN).status_code == 200
        assert kept(agent) == rules
        assert asks(agent, "ls -a", session_id=again["session"]) is None


def test_it_outlives_the_server(agent: Runtime) -> None:
    allow(agent, "ls -l")
    agent.process.kill9()
    agent.start()
    assert kept(agent) == [("bare", "bash", "ls *", "allow")]
    assert asks(agent, "ls -a") is None
