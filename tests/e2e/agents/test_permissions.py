"""What may be done in a session, over live HTTP: rules that people set, approvals that add some, and the last word."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import httpx
import pytest

from agent_testing import Call, Hang, Say, ScriptedProvider

from ..conftest import Start
from ..live import TOKEN, Runtime, assert_problem, eventually, fresh

ASK_PUSH = {"permission": "bash", "pattern": "git push *", "action": "ask"}
DENY_BASH = {"permission": "bash", "pattern": "*", "action": "deny"}


def permit(agent: Runtime, session: str, *rules: dict[str, str], **headers: str) -> httpx.Response:
    return agent.http.put(f"/sessions/{session}/permissions", json={"rules": list(rules)}, headers=headers)


def rules_of(agent: Runtime, session: str) -> list[tuple[str, str, str]]:
    reply = agent.get(f"/sessions/{session}/permissions")
    assert reply.status_code == 200, reply.text
    return [(rule["permission"], rule["pattern"], rule["action"]) for rule in reply.json()["rules"]]


def known(agent: Runtime, *steps: Any) -> str:
    """A session that is there."""
    session = fresh("s")
    agent.provider.script.replace([Say("hello")])
    assert agent.chat("hi", session_id=session).status_code == 200
    agent.provider.script.replace(list(steps))
    return session


def bash(agent: Runtime, session: str, command: str = "echo done", **more: Any) -> dict[str, Any]:
    """What came of one command."""
    agent.provider.script.replace([Call("bash", {"command": command}), Say("so it is")])
    reply = agent.chat("run it", session_id=session, **more)
    assert reply.status_code == 200, reply.text
    (output,) = reply.json()["tool_outputs"]
    return output


def denied(output: dict[str, Any]) -> str:
    assert output["state"] == "output-error", output
    return output["output"]


def test_rules_are_read_and_set_as_a_whole(agent: Runtime) -> None:
    session = known(agent)
    before = agent.get(f"/sessions/{session}/permissions").json()
    assert before["session_id"] == session
    assert (before["agent"], before["rules"], before["project"]) == ("default", [], [])
    bash_rule = {"permission": "bash", "pattern": "*", "action": "allow", "source": "manifest", "added_at": None}
    assert bash_rule in before["manifest"]
    done = permit(agent, session, ASK_PUSH, {"permission": "web_fetch", "action": "deny"})
    assert done.status_code == 200, done.text
    assert done.json() == agent.get(f"/sessions/{session}/permissions").json()
    first, second = done.json()["rules"]
    assert first.pop("added_at") > 0
    assert first == {**ASK_PUSH, "source": "session"}
    assert (second["pattern"], second["source"]) == ("*", "session")
    assert permit(agent, session, DENY_BASH).status_code == 200
    assert rules_of(agent, session) == [("bash", "*", "deny")]
    assert permit(agent, session).json()["rules"] == []


@pytest.mark.parametrize(
    ("body", "fields"),
    [
        ({}, ["rules"]),
        ({"rules": {}}, ["rules"]),
        ({"rules": [{"permission": "bash"}]}, ["rules.0.action"]),
        ({"rules": [{"permission": "", "action": "deny"}]}, ["rules.0.permission"]),
        ({"rules": [{"permission": "bash", "action": "no", "pattern": ""}]}, ["rules.0.action", "rules.0.pattern"]),
        ({"rules": [{"permission": "bash", "action": "deny", "source": "manifest"}]}, ["rules.0.source"]),
        ({"rules": [{"permission": "bash", "action": "deny", "pattern": "x" * 1001}]}, ["rules.0.pattern"]),
        ({"rules": [], "more": 1}, ["more"]),
        ({"rules": [DENY_BASH] * 201}, ["rules"]),
    ],
)
def test_what_is_wrong_with_rules_is_named(agent: Runtime, body: Any, fields: list[str]) -> None:
    session = known(agent)
    permit(agent, session, ASK_PUSH)
    reply = agent.http.put(f"/sessions/{session}/permissions", json=body)
    assert_problem(reply, 422, "invalid_request", *fields)
    assert rules_of(agent, session) == [("bash", "git push *", "ask")]


def test_sessions_that_are_not_the_callers_are_not_there(agent: Runtime) -> None:
    session = known(agent)
    session_id = agent.get(f"/sessions/{session}").json()["id"]
    stranger = {"Authorization": f"Bearer {TOKEN}", "X-Agent-User": "somebody"}
    with agent.client(**stranger) as somebody:
        for name in (session, session_id, "unknown", "ses_" + "0" * 26):
            assert_problem(somebody.get(f"/sessions/{name}/permissions"), 404, "unknown_session")
            reply = somebody.put(f"/sessions/{name}/permissions", json={"rules": [DENY_BASH]})
            assert_problem(reply, 404, "unknown_session")
    with agent.client(accept="*/*") as nobody:
        assert nobody.put(f"/sessions/{session}/permissions", json={"rules": []}).status_code == 401
    assert rules_of(agent, session_id) == []


def test_what_is_taken_away_is_gone_for_the_turn_that_runs(agent: Runtime) -> None:
    session = known(agent)
    replies: list[httpx.Response] = []

    def model(request: Any) -> Any:
        done = sum(message["role"] == "tool" for message in request.messages)
        if done == 1:  # between its two commands somebody changes his mind
            with agent.client() as person:
                replies.append(person.put(f"/sessions/{session}/permissions", json={"rules": [DENY_BASH]}))
        return Call("bash", {"command": f"echo {done}"}) if done < 2 else Say("over")

    agent.provider.script.replace(model)
    first, second = agent.chat("twice", session_id=session).json()["tool_outputs"]
    assert [reply.status_code for reply in replies] == [200]
    assert first["output"]["data"]["stdout"] == "0\n"
    assert denied(second) == "bash echo 1: a session rule for bash * forbids it"


@pytest.mark.slow
def test_rules_outlive_the_server_and_are_not_handed_on(
    start: Start, provider: ScriptedProvider, tmp_path: Path
) -> None:
    agent = start()
    session = known(agent)
    permit(agent, session, ASK_PUSH, DENY_BASH)
    agent.process.kill9()
    agent.start()
    assert rules_of(agent, session) == [("bash", "git push *", "ask"), ("bash", "*", "deny")]
    assert "forbids it" in denied(bash(agent, session))
    child = agent.post(f"/sessions/{session}/fork", {}).json()["id"]
    assert rules_of(agent, child) == []
    assert bash(agent, child)["output"]["data"]["stdout"] == "done\n"
    exported = agent.get(f"/sessions/{session}/export").content
    with Runtime(provider, tmp_path / "elsewhere") as other:
        kept = other.http.post("/sessions/import", params={"permissions": "keep"}, content=exported)
        assert (kept.status_code, kept.json()["permissions_left_out"]) == (201, [])
        session_id = agent.get(f"/sessions/{session}").json()["id"]
        assert rules_of(other, session_id) == rules_of(agent, session)
        assert "forbids it" in denied(bash(other, session_id))


def wait_for_approval(agent: Runtime, session: str, command: str, *then: Any) -> dict[str, Any]:
    agent.provider.script.replace([Call("bash", {"command": command}), *then])
    reply = agent.chat("run it", session_id=session, message_id=fresh("m"))
    assert reply.status_code == 202, reply.text
    (pending,) = reply.json()["pending"]
    return pending


def answer(agent: Runtime, session: str, pending: dict[str, Any], decision: str) -> None:
    reply = agent.post(f"/chat/{session}/answer", {"id": pending["id"], "decision": decision})
    assert reply.status_code == 200, reply.text
    eventually(lambda: agent.get(f"/sessions/{session}").json()["status"]["state"] == "idle")


def last_output(agent: Runtime, session: str) -> dict[str, Any]:
    message = agent.get(f"/sessions/{session}/messages").json()["messages"][-1]
    return [part for part in message["parts"] if part["type"].startswith("tool-")][-1]


def test_an_approval_says_why_and_what_always_would_mean(agent: Runtime) -> None:
    session = known(agent)
    permit(agent, session, {**ASK_PUSH, "pattern": "echo push *"})
    pending = wait_for_approval(agent, session, "echo push origin && echo done", Say("pushed"))
    assert pending["reason"] == "bash echo push origin: a session rule for bash echo push * asks for approval"
    assert pending["always"] == [{"permission": "bash", "pattern": "echo push *", "action": "allow"}]
    answer(agent, session, pending, "reject")
    assert last_output(agent, session)["state"] == "output-denied"
    pending = wait_for_approval(agent, session, "echo push origin", Say("pushed"))
    answer(agent, session, pending, "once")
    assert last_output(agent, session)["output"]["data"]["stdout"] == "push origin\n"
    assert len(rules_of(agent, session)) == 1
    pending = wait_for_approval(agent, session, "echo push origin", Say("pushed"))
    answer(agent, session, pending, "always")
    assert rules_of(agent, session) == [("bash", "echo push *", "allow")]
    assert bash(agent, session, "echo push again")["output"]["data"]["stdout"] == "push again\n"


def test_what_no_rule_covers_asks_for_the_kind_of_call(reuse: Start, provider: ScriptedProvider) -> None:
    agent = reuse()
    (agent.data_dir / "agents").mkdir(exist_ok=True)
    (agent.data_dir / "agents" / "bare.yaml").write_text("description: Asks.\nmode: primary\n")
    provider.script.replace([Call("bash", {"command": "git status; ls -l"}), Say("done")])
    reply = agent.chat("run", session_id="s", agent="bare")
    (pending,) = reply.json()["pending"]
    assert pending["reason"] == "bash git status: no rule of agent bare covers it"
    assert [rule["pattern"] for rule in pending["always"]] == ["git status", "ls *"]
    answer(agent, "s", pending, "always")
    assert rules_of(agent, "s") == [("bash", "git status", "allow"), ("bash", "ls *", "allow")]
    provider.script.replace([Call("bash", {"command": "ls $(cat x)"}), Say("done")])
    (pending,) = agent.chat("run", session_id="s", message_id="again").json()["pending"]
    assert (pending["kind"], pending["always"]) == ("approval", [])
    answer(agent, "s", pending, "always")
    assert rules_of(agent, "s") == [("bash", "git status", "allow"), ("bash", "ls *", "allow")]


@pytest.mark.slow
@pytest.mark.parametrize(
    "decision", ["once", *(pytest.param(other, marks=pytest.mark.slow) for other in ("always", "reject"))]
)
def test_an_approval_and_its_answer_outlive_the_server(start: Start, provider: ScriptedProvider, decision: str) -> None:
    agent = start()
    session = known(agent)
    permit(agent, session, {**ASK_PUSH, "pattern": "touch *"})
    pending = wait_for_approval(agent, session, "touch made")
    agent.process.kill9()
    provider.script.replace([Hang(reply=Say("never heard"))])
    agent.start()
    assert agent.get(f"/sessions/{session}").json()["status"]["pending"] == [pending]
    assert agent.post(f"/chat/{session}/answer", {"id": pending["id"], "decision": decision}).status_code == 200
    eventually(lambda: len(provider.completions) == 3)  # it has gone on to its next model call
    made = agent.data_dir / "workspace" / "made"
    assert made.exists() is (decision != "reject")
    made.unlink(missing_ok=True)
    agent.process.kill9()
    agent.start()
    reply = agent.post(f"/chat/{session}/answer", {"id": pending["id"], "decision": "once"})
    assert_problem(reply, 409, "not_waiting")
    assert not made.exists()  # nothing runs twice
    assert rules_of(agent, session) == [("bash", "touch *", "allow" if decision == "always" else "ask")]


def test_where_nobody_is_asked_nothing_is_allowed(reuse: Start, provider: ScriptedProvider) -> None:
    agent = reuse()
    (agent.data_dir / "agents").mkdir(exist_ok=True)
    (agent.data_dir / "agents" / "bare.yaml").write_text("description: Asks.\nmode: primary\n")
    provider.script.replace([Call("bash", {"command": "touch made"}), Say("no")])
    assert agent.run(agent="bare")["status"] == "complete"
    (told,) = [message for message in provider.completions[-1].messages if message["role"] == "tool"]
    fixed = "bash touch made: no rule of agent bare covers it; it needs a human's approval, and none is here"
    assert json.loads(told["content"])["error_text"] == fixed
    assert not (agent.data_dir / "workspace" / "made").exists()


def test_what_the_operator_denies_nobody_brings_back(start: Start, tmp_path: Path, provider: ScriptedProvider) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "permissions.yaml").write_text(
        "ceiling:\n  fs: {read: ['{workspace}'], write: ['{workspace}', '{ad-hoc}']}\n"
        "  shell: [{cmd: {wildcard: true}, args: [{wildcard: true}]}]\n"
        "rules:\n  - {permission: write, pattern: 'locked/*', action: deny}\n"
    )
    (tmp_path / "data" / "agents").mkdir(parents=True, exist_ok=True)
    (tmp_path / "data" / "agents" / "free.yaml").write_text(
        "description: Would like to.\nmode: all\npermissions: {'*': allow, write: {'*': allow, 'locked/*': allow}}\n"
    )
    agent = start()
    session = known(agent)
    permit(agent, session, {"permission": "write", "pattern": "locked/a", "action": "allow"})
    for name in ("default", "free"):
        provider.script.replace(
            [
                Call("write", {"path": "locked/a", "content": "x"}),
                Call("read", {"path": str(agent.data_dir)}),
                Call("write", {"path": "open", "content": "x"}),
                Say("so"),
            ]
        )
        locked, _, opened = agent.chat("try", session_id=session, agent=name).json()["tool_outputs"]
        assert denied(locked) == "write locked/a: a project rule for write locked/* forbids it"
        assert opened["state"] == "output-available"
    assert [rule["source"] for rule in agent.get(f"/sessions/{session}/permissions").json()["project"]] == ["project"]
    provider.script.replace([Call("bash", {"command": "true"}), Call("web_fetch", {"url": "http://a.org"}), Say("so")])
    shell, web = agent.chat("try", session_id=session, agent="free").json()["tool_outputs"]
    assert (
        denied(shell)
        == f"bash is refused: agent free may not read {agent.data_dir.resolve()}/scratch/"
        + shell["output"].rpartition("/")[2]
    )
    assert denied(web) == "web_fetch is refused: agent free may not reach a.org"


def test_a_wrong_operators_file_stops_the_start(tmp_path: Path, provider: ScriptedProvider) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "permissions.yaml").write_text("rules: [{permission: bash, action: never}]\n")
    agent = Runtime(provider, tmp_path / "data")
    with pytest.raises(RuntimeError, match=r"rules\.0\.action"):
        agent.start()


def test_the_watchdog_has_the_last_word_and_the_model_hears_it(agent: Runtime) -> None:
    session = known(agent)
    permit(agent, session, {"permission": "bash", "pattern": "*", "action": "allow"})
    said = denied(bash(agent, session, "rm -rf /"))
    assert said
    (told,) = [m for m in agent.provider.completions[-1].messages if m["role"] == "tool"][-1:]
    assert json.loads(told["content"])["error_text"] == said


PAGES = Path(__file__).parents[3] / "docs" / "reference"


@pytest.mark.parametrize("page", ["agents.md", "permissions.md"])
def test_the_commands_on_the_pages_work(reuse: Start, provider: ScriptedProvider, page: str) -> None:
    agent = reuse()
    provider.script.replace(lambda _: Say("hello"))
    agent.chat("hi", session_id="my-thread")
    commands = [line for line in (PAGES / page).read_text().splitlines() if line.startswith("curl ")]
    assert len(commands) >= 2
    for command in commands:
        words = shlex.split(command)
        body = words[words.index("-d") + 1] if "-d" in words else None
        method = words[words.index("-X") + 1] if "-X" in words else "POST" if body else "GET"
        (url,) = [word for word in words if word.startswith("localhost:8400/")]
        reply = agent.http.request(method, url.removeprefix("localhost:8400"), content=body)
        assert reply.status_code == 200, (command, reply.text)
