"""Agents as data, and agents that call agents, over live HTTP."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from agent_testing import Call, Hang, Say, ScriptedProvider

from ..conftest import Start
from ..live import Runtime, assert_problem, assignment, eventually, fresh

REVIEWER = """---
description: Reads and judges.
mode: all
inspectable: true
tools: [read, grep]
permissions: {read: allow, grep: {"*": allow, "secrets/*": deny}}
---
You review. Speak like a pirate.
"""


def outputs(reply: Any) -> list[dict[str, Any]]:
    assert reply.status_code == 200, reply.text
    return reply.json()["tool_outputs"]


def test_an_agent_is_chosen_per_message_and_the_session_keeps_its_own(agent: Runtime) -> None:
    session = fresh("s")
    agent.provider.script.replace(
        [
            Call("write", {"path": "a.txt", "content": "x"}),
            Say("no"),
            Call("write", {"path": "a.txt", "content": "x"}),
            Say("yes"),
        ]
    )
    planned = outputs(agent.chat("make a file", session_id=session, agent="plan"))
    assert planned[0]["state"] == "output-error"
    assert "may not write" in planned[0]["output"]
    built = outputs(agent.chat("now make it", session_id=session, agent="build"))
    assert built[0]["state"] == "output-available"
    first, last = agent.provider.completions[0], agent.provider.completions[-1]
    assert "You plan and do not build" in first.messages[0]["content"]
    assert "You carry out work" in last.messages[0]["content"]
    assert "bash" not in {tool["function"]["name"] for tool in first.json["tools"]}
    assert "act as agent build" in [message for message in last.messages if message["role"] == "user"][-1]["content"]
    assert agent.get(f"/sessions/{session}").json()["agent"] == "plan"
    messages = agent.get(f"/sessions/{session}/messages").json()["messages"]
    assert [message["metadata"]["agent"] for message in messages] == ["plan", "plan", "build", "build"]
    assert_problem(agent.chat("hi", session_id=session, agent="nobody"), 422, "invalid_request", "agent")


def test_a_file_is_an_agent_at_once(reuse: Start, provider: ScriptedProvider) -> None:
    agent = reuse()
    folder = agent.data_dir / "agents"
    folder.mkdir(exist_ok=True)
    (folder / "reviewer.md").write_text(REVIEWER)
    (folder / "broken.yaml").write_text("mode: all\ncolour: red")
    cards = {card["name"]: card for card in agent.get("/capabilities").json()["agents"]}
    assert cards["reviewer"]["source"] == "file"
    assert "colour: no such field" in cards["broken.yaml"]["error"]
    provider.script.replace([Call("grep", {"pattern": "zebra", "path": "."}), Say("Arr")])
    (agent.data_dir / "workspace" / "secrets").mkdir()
    (agent.data_dir / "workspace" / "secrets" / "key").write_text("zebra")
    (agent.data_dir / "workspace" / "open").write_text("zebra")
    (found,) = outputs(agent.chat("look", agent="reviewer"))
    assert [match["path"] for match in found["output"]["data"]["matches"]] == ["open"]
    assert "Speak like a pirate" in provider.completions[0].messages[0]["content"]
    assert {tool["function"]["name"] for tool in provider.completions[0].json["tools"]} == {"grep", "read"}


def test_a_nested_agent_leaves_its_transcript_in_the_result(agent: Runtime) -> None:
    agent.provider.script.replace(
        [
            Call("spawn_agent", {"subagent_type": "explore", "prompt": "what is here?"}),
            Call("write", {"path": "x", "content": "x"}),
            Say("nothing is here"),
            Say("it says: nothing"),
        ]
    )
    session = fresh("s")
    (made,) = outputs(agent.chat("delegate", session_id=session))
    assert made["output"]["data"] == {"output": "nothing is here"}
    transcript = made["output"]["metadata"]["transcript"]
    (call,) = [part for part in transcript if part["type"] == "tool-write"]
    assert call["state"] == "output-error"
    inner, outer = agent.provider.completions[1], agent.provider.completions[-1]
    assert "You find things out" in inner.messages[0]["content"]
    assert "transcript" not in json.dumps(outer.messages)
    detail = agent.get(f"/sessions/{session}").json()
    assert detail["total_tokens"] > 0


def test_an_inspectable_agent_leaves_a_session(reuse: Start, provider: ScriptedProvider) -> None:
    agent = reuse()
    (agent.data_dir / "agents").mkdir(exist_ok=True)
    (agent.data_dir / "agents" / "reviewer.md").write_text(REVIEWER)
    provider.script.replace(
        [
            Call("task", {"subagent_type": "reviewer", "prompt": "judge", "metadata": {"ticket": 7}}),
            Say("fine work"),
            Say("it is fine"),
        ]
    )
    (made,) = outputs(agent.chat("delegate", session_id="parent"))
    child = made["output"]["data"]["session_id"]
    detail = agent.get(f"/sessions/{child}").json()
    parent = agent.get("/sessions/parent").json()
    assert (detail["agent"], detail["parent_id"]) == ("reviewer", parent["id"])
    assert made["output"]["data"]["output"] == "fine work"


def test_a_background_agent_reports_into_its_callers_session(agent: Runtime) -> None:
    session = fresh("s")
    agent.provider.script.replace(
        lambda request: (
            Say("found it")
            if "You find things out" in request.messages[0]["content"]
            else Say("it works on")
            if any(message["role"] == "tool" for message in request.messages)
            else Call("task", {"subagent_type": "explore", "prompt": "search", "background": True})
        )
    )
    (made,) = outputs(agent.chat("delegate", session_id=session))
    child = made["output"]["data"]["session_id"]

    def reported() -> bool:
        messages = agent.get(f"/sessions/{session}/messages").json()["messages"]
        return messages[-1]["metadata"].get("subagent", {}).get("session_id") == child

    eventually(reported)
    agent.chat("and?", session_id=session)
    assert "found it" in json.dumps(agent.provider.completions[-1].messages)


# ---------------------------------------------------------------- choosing one


HELPER = "description: Helps.\nmode: subagent\n"
GUEST = "description: Is here for a while.\nmode: primary\nprompt: You are the guest.\npermissions: {'*': allow}\n"


def manifest(agent: Runtime, name: str, text: str) -> Path:
    folder = agent.data_dir / "agents"
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.yaml").write_text(text)
    return folder / f"{name}.yaml"


def use_chat(session: str, name: str, **more: Any) -> dict[str, Any]:
    message = {"id": name, "role": "user", "parts": [{"type": "text", "text": "hi"}]}
    return {"id": session, "messages": [{**message, **more.pop("message", {})}], "trigger": "submit-message", **more}


def test_the_agent_may_be_named_in_the_metadata_of_a_message(agent: Runtime) -> None:
    agent.provider.script.replace([Say("planned")])
    assert agent.chat("make a file", metadata={"agent": "plan", "page": 3}).status_code == 200
    assert "You plan and do not build" in agent.provider.completions[-1].messages[0]["content"]
    two = agent.chat("make a file", agent="build", metadata={"agent": "plan"})
    assert_problem(two, 422, "invalid_request")
    assert "agent and metadata.agent name two agents" in two.text
    odd = agent.chat("make a file", metadata={"agent": 7})
    assert odd.json()["errors"][0]["field"] == "metadata.agent"


@pytest.mark.parametrize("more", [{"agent": "plan"}, {"message": {"metadata": {"agent": "plan"}}}])
def test_a_page_names_the_agent_beside_the_messages_or_in_its_message(agent: Runtime, more: dict[str, Any]) -> None:
    session = fresh("s")
    agent.provider.script.replace([Say("planned"), Say("hello")])
    assert "planned" in agent.post("/chat", use_chat(session, "m1", **more)).text
    assert "You plan and do not build" in agent.provider.completions[-1].messages[0]["content"]
    wrong = use_chat(session, "m2", message={"metadata": {"agent": 7}})
    assert_problem(agent.post("/chat", wrong), 422, "invalid_request", "metadata.agent")
    assert_problem(agent.post("/chat", use_chat(session, "m2", agent="nobody")), 422, "invalid_request", "agent")
    assert agent.get(f"/sessions/{session}").json()["agent"] == "plan"
    assert len(agent.get(f"/sessions/{session}/messages").json()["messages"]) == 2


def test_a_task_has_the_agent_that_it_names(agent: Runtime) -> None:
    agent.provider.script.replace([Call("bash", {"command": "true"}), Say("no")])
    done = agent.run(agent="explore")
    assert done["status"] == "complete"
    assert "You find things out" in agent.provider.completions[-1].messages[0]["content"]
    assert agent.get(f"/sessions/{done['session_id']}").json()["agent"] == "explore"
    body = assignment(agent="explore")
    assert agent.post("/task", body).status_code == 202
    assert_problem(agent.post("/task", {**body, "agent": "plan"}), 409, "task_conflict")
    agent.result(body["task_id"])


def test_agents_for_agents_are_not_for_people(reuse: Start, provider: ScriptedProvider) -> None:
    agent = reuse()
    manifest(agent, "helper", HELPER)
    for reply in (
        agent.chat("hi", session_id="s", agent="helper"),
        agent.post("/task", assignment(agent="helper")),
        agent.post("/chat", use_chat("s", "m", agent="helper")),
    ):
        assert "is for other agents only" in assert_problem(reply, 422, "invalid_request", "agent")["detail"]
    assert agent.get("/sessions").json()["sessions"] == []
    assert_problem(agent.get("/sessions/s"), 404, "unknown_session")
    assert provider.completions == []


def test_the_agent_of_a_session_is_for_life(agent: Runtime) -> None:
    session = fresh("s")
    agent.chat("hi", session_id=session, agent="explore")
    reply = agent.http.patch(f"/sessions/{session}", json={"agent": "build"})
    assert_problem(reply, 422, "invalid_request", "agent")
    seen = agent.get(f"/sessions/{session}/prompt").json()
    names = [tool["function"]["name"] for tool in seen["tools"]]
    assert names == agent.provider.completions[-1].tool_names
    assert "bash" not in names


# ---------------------------------------------------------------- one that goes


def gone(agent: Runtime, session: str, name: str) -> None:
    """The message has failed for want of its agent, and the session takes another one."""
    reply = eventually(
        lambda: (it := agent.chat("stay", session_id=session, message_id=name, wait=5)).status_code == 500 and it
    )
    assert_problem(reply, 500, "unknown_agent")
    assert reply.json()["detail"] == "agent guest no longer exists"
    agent.provider.script.replace([Say("hello")])
    assert agent.chat("hi", session_id=session, agent="default").json()["response"] == "hello"


def test_a_message_whose_agent_is_gone_before_its_turn_fails(reuse: Start, provider: ScriptedProvider) -> None:
    agent = reuse(AGENT_MAX_CONCURRENT_TURNS=1)
    file = manifest(agent, "guest", GUEST)
    provider.script.replace([Hang(reply=Say("done"))])
    agent.chat("block", session_id="other", wait=0)
    eventually(lambda: provider.completions)
    queued = agent.chat("stay", session_id="s", message_id="m", agent="guest", wait=0)
    assert queued.json()["status"] == "queued"
    file.unlink()
    provider.release()
    gone(agent, "s", "m")


def test_a_message_whose_agent_is_gone_while_it_waits_fails(reuse: Start, provider: ScriptedProvider) -> None:
    agent = reuse()
    file = manifest(agent, "guest", GUEST)
    provider.script.replace([Call("question", {"questions": [{"question": "Stay?"}]}, id="q")])
    assert agent.chat("stay", session_id="s", message_id="m", agent="guest").json()["status"] == "waiting"
    file.unlink()
    assert agent.post("/chat/s/answer", {"id": "q", "answers": [["yes"]]}).status_code == 200
    gone(agent, "s", "m")


@pytest.mark.slow
def test_a_message_whose_agent_is_gone_at_a_restart_fails(start: Start, provider: ScriptedProvider) -> None:
    agent = start(AGENT_MAX_CONCURRENT_TURNS=1)
    file = manifest(agent, "guest", GUEST)
    provider.script.replace([Hang()])
    agent.chat("block", session_id="other", wait=0)
    eventually(lambda: provider.completions)
    agent.chat("stay", session_id="s", message_id="m", agent="guest", wait=0)
    agent.process.kill9()
    file.unlink()
    agent.start()
    gone(agent, "s", "m")


def test_an_agent_that_goes_in_the_middle_of_its_turn_does_nothing_more(
    reuse: Start, provider: ScriptedProvider
) -> None:
    agent = reuse()
    file = manifest(agent, "guest", GUEST)

    def model(request: Any) -> Any:
        file.unlink(missing_ok=True)
        return Call("bash", {"command": "touch made"})

    provider.script.replace(model)
    agent.chat("stay", session_id="s", message_id="m", agent="guest")
    assert not (agent.data_dir / "workspace" / "made").exists()
    gone(agent, "s", "m")


@pytest.mark.slow
def test_the_steps_that_an_agent_may_make_are_counted_over_a_restart(start: Start, provider: ScriptedProvider) -> None:
    agent = start(AGENT_MAX_CONCURRENT_TURNS=1)
    manifest(agent, "guest", f"{GUEST}max_steps: 2\n")
    provider.script.replace([Hang()])
    agent.chat("block", session_id="other", wait=0)
    eventually(lambda: provider.completions)
    agent.chat("stay", session_id="s", message_id="m", agent="guest", wait=0)
    task = agent.assign(agent="guest")
    agent.process.kill9()
    provider.clear()
    provider.script.replace(lambda request: Call("glob", {"pattern": f"x{len(request.messages)}"}))
    agent.start()
    assert agent.chat("stay", session_id="s", message_id="m").json()["limit"] == "iterations"
    assert agent.result(task)["limit"] == "iterations"
    assert len(provider.completions) == 4


# ---------------------------------------------------------------- what each of them is told


@pytest.mark.slow
def test_each_agent_s_requests_extend_one_another(start: Start, provider: ScriptedProvider) -> None:
    """Whoever speaks in between, and over a restart, and when files and tools change meanwhile."""
    agent = start()
    file = manifest(agent, "guest", GUEST)
    provider.script.replace(lambda request: Say(f"reply {len(request.messages)}"))
    order = ["plan", "guest", "plan", "default", "guest", "plan", "default"]
    for number, name in enumerate(order):
        assert agent.chat(f"message {number}", session_id="s", agent=name).status_code == 200
        if number == 3:
            file.write_text(GUEST.replace("the guest", "another one"))
            (agent.data_dir / "workspace" / "AGENTS.md").write_text("Be brief.")
        if number in (1, 4):
            agent.process.kill9()
            agent.start()
    by_agent = {name: [r for r, one in zip(provider.completions, order, strict=True) if one == name] for name in order}
    for requests in by_agent.values():
        for earlier, later in pairwise(requests):
            assert later.json["tools"] == earlier.json["tools"]
            assert later.messages[: len(earlier.messages)] == earlier.messages
    for earlier, later in pairwise(provider.completions):  # only who is spoken to changes, never what was said
        assert later.messages[1 : len(earlier.messages)] == earlier.messages[1:]
    detail = agent.get("/sessions/s").json()
    assert detail["agent"] == "plan"
    stored = json.loads(agent.sql("SELECT metadata_json FROM chat_sessions WHERE id = ?", detail["id"])[0][0])
    assert set(stored["briefs"]) == {"guest", "default"}


@pytest.mark.slow
def test_an_imported_session_briefs_its_guests_anew_and_once(
    start: Start, provider: ScriptedProvider, tmp_path: Path
) -> None:
    agent = start()
    provider.script.replace(lambda _: Say("hello"))
    agent.chat("hi", session_id="s")
    agent.chat("plan", session_id="s", agent="plan")
    exported = agent.get("/sessions/s/export").content
    for wrong in (b'\\"briefs\\":5', b'\\"briefs\\":{\\"plan\\":5}'):
        changed = re.sub(rb'\\"briefs\\":\{.*?\}\}', lambda _, wrong=wrong: wrong, exported)
        assert changed != exported
        with Runtime(provider, tmp_path / f"other-{len(wrong)}") as other:
            reply = other.http.post("/sessions/import", content=changed)
            assert reply.status_code == (201 if b"plan" in wrong else 422), reply.text
            if reply.status_code == 201:
                assert other.chat("hi", session_id=reply.json()["id"], agent="plan").status_code == 200
    with Runtime(provider, tmp_path / "elsewhere") as other:
        session = other.http.post("/sessions/import", content=exported).json()["id"]
        (other.data_dir / "workspace" / "AGENTS.md").write_text("Another house.")
        assert other.chat("plan", session_id=session, agent="plan").status_code == 200
        (other.data_dir / "workspace" / "AGENTS.md").write_text("Yet another.")
        other.process.kill9()
        other.start()
        assert other.chat("plan", session_id=session, agent="plan").status_code == 200
    first, second = provider.completions[-2:]
    assert second.messages[: len(first.messages)] == first.messages


@pytest.mark.slow
def test_a_message_that_is_refused_leaves_no_brief_behind(start: Start, provider: ScriptedProvider) -> None:
    agent = start(AGENT_MAX_CONCURRENT_TURNS=1, AGENT_MAX_QUEUE=0)
    provider.script.replace([Say("hello"), Hang(reply=Say("done"))])
    agent.chat("hi", session_id="s")
    agent.chat("block", session_id="other", wait=0)
    eventually(lambda: len(provider.completions) == 2)
    assert agent.chat("plan", session_id="s", agent="plan").status_code == 429
    assert "briefs" not in agent.sql("SELECT metadata_json FROM chat_sessions ORDER BY created_at LIMIT 1")[0][0]
    provider.release()
    eventually(lambda: agent.status()["sessions"]["running"] == 0)
    provider.script.replace(lambda _: Say("planned"))
    assert agent.chat("plan", session_id="s", agent="plan").status_code == 200
    agent.process.kill9()
    agent.start()
    assert agent.chat("plan", session_id="s", agent="plan").status_code == 200
    first, second = provider.completions[-2:]
    assert second.messages[: len(first.messages)] == first.messages


def test_a_message_sent_twice_is_found_when_its_agent_is_gone(reuse: Start, provider: ScriptedProvider) -> None:
    agent = reuse()
    file = manifest(agent, "guest", GUEST)
    provider.script.replace([Say("once")])
    first = agent.chat("hi", session_id="s", message_id="m", agent="guest")
    file.unlink()
    again = agent.chat("hi", session_id="s", message_id="m", agent="guest")
    assert (again.status_code, again.json()["response"]) == (200, "once")
    assert again.json()["message_id"] == first.json()["message_id"]
    assert len(provider.completions) == 1
