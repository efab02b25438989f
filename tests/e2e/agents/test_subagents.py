"""Agents that call agents, over live HTTP: how deep, how many, how long, with how much, and what a crash leaves."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import pytest

from agent_testing import Call, Hang, Say, ScriptedProvider

from ..conftest import Start
from ..live import PATIENCE, Runtime, eventually, fresh, in_background

LOOKER = """description: Looks into things.
mode: all
inspectable: {inspectable}
prompt: You are the looker.
permissions: {{"*": allow}}
"""
RECURSIVE = "description: Calls itself.\nmode: all\nprompt: You are recursive.\npermissions: {'*': allow}\n"
LITTLE = {"prompt_tokens": 10, "completion_tokens": 1, "total_tokens": 11}
Model = Callable[[Any], Any]


def manifest(agent: Runtime, name: str, text: str) -> None:
    (agent.data_dir / "agents").mkdir(exist_ok=True)
    (agent.data_dir / "agents" / f"{name}.yaml").write_text(text)


def system(request: Any) -> str:
    return str(request.messages[0]["content"])


def told(request: Any) -> list[dict[str, Any]]:
    """The envelopes of the tool calls that the model has heard of."""
    return [json.loads(message["content"]) for message in request.messages if message["role"] == "tool"]


def model(child: Any, *calls: Call) -> Model:
    """A caller that makes these calls in one step and then stops; `child` is what every other agent says."""

    def answer(request: Any) -> Any:
        if "You are the looker" in system(request) or "You find things out" in system(request):
            return child(request) if callable(child) else child
        return Say("over", usage=LITTLE) if told(request) else Say("", calls=calls, usage=LITTLE)

    return answer


def look(name: str = "looker", **more: Any) -> Call:
    return Call("task", {"subagent_type": name, "prompt": "look", **more})


def outputs(agent: Runtime, session: str, /, **more: Any) -> list[dict[str, Any]]:
    reply = agent.chat("delegate", session_id=session, **more)
    assert reply.status_code == 200, reply.text
    return reply.json()["tool_outputs"]


def sessions(agent: Runtime) -> list[dict[str, Any]]:
    return agent.get("/sessions").json()["sessions"]


@pytest.mark.parametrize(
    ("name", "says"),
    [("nobody", "agent 'nobody' does not exist"), ("build", "agent 'build' is for people to choose")],
)
def test_only_agents_for_agents_can_be_called(agent: Runtime, name: str, says: str) -> None:
    agent.provider.script.replace(model(Say("no"), look(name)))
    (output,) = outputs(agent, fresh("s"))
    assert says in output["output"]
    assert "default, explore" in output["output"]


@pytest.mark.parametrize(("inspectable", "more"), [("false", {}), ("true", {}), ("true", {"background": True})])
def test_a_subagent_is_told_that_it_was_called(
    reuse: Start, provider: ScriptedProvider, inspectable: str, more: dict[str, Any]
) -> None:
    agent = reuse()
    manifest(agent, "looker", LOOKER.format(inspectable=inspectable))
    provider.script.replace(model(Say("seen"), look(**more)))
    outputs(agent, "s", agent="build")
    eventually(lambda: agent.status()["sessions"]["running"] == 0)
    (asked,) = [request for request in provider.completions if "the looker" in system(request)]
    words = asked.messages[-1]["content"]
    assert words.startswith("look\n\n<")
    (line,) = [line for line in words.splitlines() if line.startswith("caller: ")]
    assert "subagent" in line
    assert "agent build" in line
    assert "task" in line
    others = [request for request in provider.completions if request is not asked]
    assert not [request for request in others if "caller: " in json.dumps(request.messages)]


@pytest.mark.parametrize("background", [False, True])
def test_they_call_each_other_five_deep(reuse: Start, provider: ScriptedProvider, background: bool) -> None:
    agent = reuse()
    manifest(agent, "recursive", RECURSIVE + "inspectable: true\n" if background else RECURSIVE)

    def recurse(request: Any) -> Any:
        heard = told(request)
        return Say(json.dumps(heard[-1])) if heard else look("recursive", background=background)

    provider.script.replace(recurse)
    (output,) = outputs(agent, "s", agent="recursive")
    assert output["state"] == "output-available"
    eventually(lambda: len(provider.completions) == 12 and agent.status()["sessions"]["running"] == 0)
    deepest = [json.dumps(told(request)) for request in provider.completions if told(request)]
    assert sum("agents may call each other 5 deep" in text and "denied" in text for text in deepest) >= 1
    assert sum(not told(request) for request in provider.completions) == 6


@pytest.mark.slow
def test_they_work_side_by_side_as_many_as_there_may_be(reuse: Start, provider: ScriptedProvider) -> None:
    agent = reuse(AGENT_MAX_SUBAGENTS=2)
    manifest(agent, "looker", LOOKER.format(inspectable="true"))
    provider.script.replace(model(Say("seen", wait=1.5), *(look() for _ in range(4))))
    started = time.monotonic()
    made = outputs(agent, "s")
    assert 3 <= time.monotonic() - started < 5.5
    assert [output["output"]["data"]["output"] for output in made] == ["seen"] * 4
    at = sorted(request.received_at for request in provider.completions if "the looker" in system(request))
    assert at[1] - at[0] < 1.4 < at[2] - at[0]
    assert len({output["output"]["data"]["session_id"] for output in made}) == 4


def test_a_background_agent_finds_a_place_or_is_refused(reuse: Start, provider: ScriptedProvider) -> None:
    agent = reuse(AGENT_MAX_SUBAGENTS=1)
    manifest(agent, "looker", LOOKER.format(inspectable="true"))
    provider.script.replace(model(Hang(), look(background=True), look(background=True)))
    made = outputs(agent, "s")
    assert sorted(output["state"] for output in made) == ["output-available", "output-error"]
    assert "1 agents are running already" in next(o["output"] for o in made if o["state"] == "output-error")
    eventually(lambda: any("the looker" in system(request) for request in provider.completions))
    provider.release()
    eventually(lambda: agent.status()["sessions"]["running"] == 0)
    provider.script.replace(model(Say("seen"), look()))
    assert outputs(agent, "t")[0]["state"] == "output-available"


@pytest.mark.slow
@pytest.mark.parametrize("inspectable", ["true", "false"])
def test_they_have_only_so_long(reuse: Start, provider: ScriptedProvider, inspectable: str) -> None:
    agent = reuse(AGENT_SUBAGENT_TIMEOUT=1)
    manifest(agent, "looker", LOOKER.format(inspectable=inspectable))
    provider.script.replace(model(Hang(after=2), look()))
    (output,) = outputs(agent, "s")
    assert "agent looker did not finish: the deadline of 1 s passed" in output["output"]
    assert "one two" in output["output"]
    agent.provider.release()


@pytest.mark.parametrize("inspectable", ["true", "false"])
def test_whoever_aborts_the_caller_aborts_them_all(start: Start, provider: ScriptedProvider, inspectable: str) -> None:
    agent = start()
    manifest(agent, "looker", LOOKER.format(inspectable=inspectable))

    def child(request: Any) -> Any:
        return Hang() if told(request) else Say("", calls=(Call("bash", {"command": "sleep 60"}), look("explore")))

    provider.script.replace(model(lambda r: Hang() if "find things out" in system(r) else child(r), look(), look()))
    thread, got = in_background(lambda: agent.chat("delegate", session_id="s"))
    eventually(lambda: sum("find things out" in system(request) for request in provider.completions) == 2)
    started = time.monotonic()
    assert agent.post("/chat/s/abort", {}).json()["aborted"] is True
    eventually(lambda: agent.status()["sessions"]["running"] == 0)
    assert time.monotonic() - started < PATIENCE / 2, "the command would sleep for a minute"
    thread.join(PATIENCE)
    assert got[0].json()["finish_reason"] == "abort"
    if inspectable == "true":
        children = [one for one in sessions(agent) if one["agent"] == "looker"]
        assert len(children) == 2
        for one in children:
            last = agent.get(f"/sessions/{one['id']}/messages").json()["messages"][-1]
            assert last["metadata"]["outcome"]["error"] == "aborted by parent"
    assert agent.sql("SELECT count(*) FROM turns WHERE state != 'ended'")[0][0] == 0


@pytest.mark.slow
def test_an_abort_at_any_moment_leaves_nobody_behind(start: Start, provider: ScriptedProvider) -> None:
    """Also while an agent is on its way to the disk."""
    agent = start(AGENT_MAX_SUBAGENTS=3)
    manifest(agent, "looker", LOOKER.format(inspectable="true"))
    background = Call("task", {"subagent_type": "explore", "prompt": "look", "background": True})
    provider.script.replace(
        model(lambda r: Say("seen") if "find things" in system(r) else Hang(), *(look(),) * 5, background)
    )
    for number in range(20):
        seen = len(provider.completions)
        agent.chat("delegate", session_id=f"s{number}", wait=0)
        eventually(lambda seen=seen: len(provider.completions) > seen)
        time.sleep(number * 0.003)  # not a wait for anything: another moment each time
        assert agent.post(f"/chat/s{number}/abort", {}).status_code == 200
        eventually(lambda: agent.status()["sessions"]["running"] == 0, timeout=60)
    assert agent.sql("SELECT count(*) FROM turns WHERE state != 'ended'")[0][0] == 0
    provider.script.replace(model(Say("seen"), *(look(),) * 3))  # every place is free again
    assert [output["state"] for output in outputs(agent, "last")] == ["output-available"] * 3


@pytest.mark.parametrize("inspectable", ["true", "false"])
def test_the_budget_of_a_task_holds_for_those_it_calls(
    reuse: Start, provider: ScriptedProvider, inspectable: str
) -> None:
    agent = reuse()
    manifest(agent, "looker", LOOKER.format(inspectable=inspectable))
    spent = {"prompt_tokens": 300, "completion_tokens": 300, "total_tokens": 600}

    def child(request: Any) -> Any:
        return Say("", calls=(Call("glob", {"pattern": f"x{len(told(request))}"}),), usage=spent)

    provider.script.replace(model(child, look()))
    done = agent.run(token_budget={"max_tokens": 2000})
    assert (done["status"], done["error_code"], done["limit"]) == ("failed", "budget_exhausted", "tokens")
    assert 3 <= sum("the looker" in system(request) for request in provider.completions) <= 4


def test_usage_is_booked_where_it_was_spent(reuse: Start, provider: ScriptedProvider) -> None:
    agent = reuse()
    spent = {"prompt_tokens": 1000, "completion_tokens": 10, "total_tokens": 1010}
    for inspectable, session in (("true", "apart"), ("false", "inside")):
        manifest(agent, "looker", LOOKER.format(inspectable=inspectable))
        provider.script.replace(model(Say("seen", usage=spent), look()))
        (output,) = outputs(agent, session)
        total = agent.get(f"/sessions/{session}").json()["total_tokens"]
        if inspectable == "true":
            child = agent.get(f"/sessions/{output['output']['data']['session_id']}").json()
            assert child["total_tokens"] == 1010
            assert total == 22
        else:
            assert total == 22 + 1010
            assert output["output"]["metadata"]["usage"]["input"] == 1000


# ---------------------------------------------------------------- no more than the caller


READER = "description: Reads.\nmode: all\nprompt: You are the caller.\npermissions: {task: allow, read: allow}\n" + (
    "grant: {fs: {read: ['{workspace}'], write: ['{workspace}/mine']}, capabilities: []}\n"
)
HOSTILE = (
    Call("write", {"path": "stolen", "content": "x"}),
    Call("write", {"path": "mine/x", "content": "x"}),
    Call("bash", {"command": "touch stolen"}),
    Call("edit", {"path": "there", "old_string": "x", "new_string": "y"}),
    Call("web_fetch", {"url": "http://example.org/"}),
)


@pytest.mark.parametrize("through", ["task", "spawn_agent"])
@pytest.mark.parametrize("middle", [False, True])
def test_nobody_gets_more_by_calling_another(
    reuse: Start, provider: ScriptedProvider, through: str, middle: bool
) -> None:
    """The one that is called would be allowed everything; its caller may read. Also over one between."""
    agent = reuse()
    (agent.data_dir / "workspace" / "there").write_text("x")
    manifest(agent, "reader", READER)
    manifest(agent, "looker", LOOKER.format(inspectable="false"))
    manifest(agent, "middle", "description: Between.\nmode: all\nprompt: You are between.\npermissions: {'*': allow}\n")
    arguments = {"prompt": "steal"}

    def answer(request: Any) -> Any:
        if told(request):
            return Say("over")
        if "the looker" in system(request):
            return Say("", calls=HOSTILE)
        nested = middle and "the caller" in system(request)
        return Call(through, {**arguments, "subagent_type": "middle" if nested else "looker"})

    provider.script.replace(answer)
    (output,) = outputs(agent, "s", agent="reader")
    assert output["state"] == "output-available"
    heard = next(request for request in provider.completions if "the looker" in system(request) and told(request))
    assert [one["type"] for one in told(heard)] == ["error"] * len(HOSTILE)
    own = {"learnings", "memory"}  # the runtime writes these by the time the turn's notes are saved
    assert {path.name for path in (agent.data_dir / "workspace").iterdir()} - own == {"there"}
    assert (agent.data_dir / "workspace" / "there").read_text() == "x"


@pytest.mark.parametrize("name", ["task", "spawn_agent"])
def test_an_alias_is_no_way_around_a_rule(agent: Runtime, name: str) -> None:
    session = fresh("s")
    agent.provider.script.replace([Say("hello")])
    agent.chat("hi", session_id=session)
    rule = {"permission": "task", "pattern": "explore", "action": "deny"}
    agent.http.put(f"/sessions/{session}/permissions", json={"rules": [rule]})
    call = Call(name, {"subagent_type": "explore", "prompt": "look"})
    agent.provider.script.replace(lambda request: Say("over") if told(request) else call)
    (output,) = outputs(agent, session)
    assert output["output"] == "task explore: a session rule for task explore forbids it"


def test_what_is_taken_from_the_caller_is_taken_from_those_in_the_background(
    reuse: Start, provider: ScriptedProvider
) -> None:
    """And rules on the child's own session give it nothing that its caller has not."""
    agent = reuse()
    manifest(agent, "looker", LOOKER.format(inspectable="true"))
    made: list[str] = []

    def child(request: Any) -> Any:
        if len(told(request)) == 0:
            return Call("bash", {"command": "echo before"})
        if len(told(request)) == 1:  # now its caller's session loses bash, and the child's own is given all
            (session,) = [one["id"] for one in sessions(agent) if one["agent"] == "looker"]
            for name, action in (("s", "deny"), (session, "allow")):
                rules = [{"permission": permission, "action": action} for permission in ("bash", "shell.run", "*")]
                reply = agent.http.put(f"/sessions/{name}/permissions", json={"rules": rules})
                made.append(reply.text if reply.status_code != 200 else "")
            return Call("bash", {"command": "echo after > stolen"})
        return Say("over")

    provider.script.replace(model(child, look(background=True)))
    outputs(agent, "s")
    eventually(lambda: sum(len(told(r)) == 2 for r in provider.completions if "the looker" in system(r)) == 1)
    assert made == ["", ""]
    last = next(r for r in provider.completions if "the looker" in system(r) and len(told(r)) == 2)
    first, second = told(last)
    assert first["data"]["stdout"] == "before\n"
    assert second["error_text"].startswith("bash echo after: a session rule for")
    assert not (agent.data_dir / "workspace" / "stolen").exists()


def test_nobody_is_asked_on_behalf_of_them(reuse: Start, provider: ScriptedProvider) -> None:
    agent = reuse()
    manifest(agent, "looker", LOOKER.format(inspectable="true").replace('{"*": allow}', "{read: allow}"))

    def child(request: Any) -> Any:
        ask = Call("question", {"questions": [{"question": "May I?"}]})
        return Say("over") if told(request) else Say("", calls=(Call("bash", {"command": "true"}), ask))

    provider.script.replace(model(child, look()))
    (output,) = outputs(agent, "s")
    assert output["output"]["data"]["output"] == "over"
    heard = [one["error_text"] for r in provider.completions if "the looker" in system(r) for one in told(r)]
    assert heard[0].endswith("it needs a human's approval, and none is here")
    assert len(heard) == 2


# ---------------------------------------------------------------- crashes


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["nested", "inspectable", "background"])
def test_a_crash_leaves_the_truth_and_nothing_runs_twice(start: Start, provider: ScriptedProvider, kind: str) -> None:
    agent = start()
    manifest(agent, "looker", LOOKER.format(inspectable="true" if kind != "nested" else "false"))
    count = Call("bash", {"command": "echo x >> count"})
    provider.script.replace(model(lambda r: Hang() if told(r) else count, look(background=kind == "background")))
    if kind == "background":
        outputs(agent, "s")
    else:
        agent.chat("delegate", session_id="s", wait=0)
    eventually(lambda: sum("the looker" in system(request) for request in provider.completions) == 2)
    agent.process.kill9()
    provider.script.replace([Say("on it goes")])
    agent.start()
    assert agent.status()["sessions"] == {"running": 0, "queued": 0, "waiting": 0}
    assert (agent.data_dir / "workspace" / "count").read_text() == "x\n"
    messages = agent.get("/sessions/s/messages").json()["messages"]
    if kind == "background":
        said = messages[-1]["parts"][-1]["text"]
        assert "[Agent looker, called in the background as session ses_" in said
        assert "did not finish (failed).]" in said
        assert messages[-1]["metadata"]["subagent"]["status"] == "failed"
    else:
        assert messages[-1]["metadata"]["outcome"]["error_code"] == "interrupted"
        (call,) = [part for part in messages[-1]["parts"] if part["type"] == "tool-task"]
        assert call["state"] == "output-error"
    for one in sessions(agent):
        if one["agent"] == "looker":
            last = agent.get(f"/sessions/{one['id']}/messages").json()["messages"][-1]
            assert last["metadata"]["outcome"]["error_code"] == "interrupted"
    assert len(provider.completions) == 2 + (2 if kind == "background" else 1)
    assert agent.chat("go on", session_id="s").json()["response"] == "on it goes"
    if kind == "background":
        assert "did not finish" in json.dumps(provider.completions[-1].messages)


@pytest.mark.slow
def test_a_shutdown_is_reported_once(start: Start, provider: ScriptedProvider) -> None:
    agent = start(AGENT_DRAIN_GRACE=0)
    provider.script.replace(model(Hang(), look("explore", background=True)))
    outputs(agent, "s")
    eventually(lambda: any("find things out" in system(request) for request in provider.completions))
    agent.sigterm()
    assert agent.process.wait(10) == 0
    agent.start()
    messages = agent.get("/sessions/s/messages").json()["messages"]
    reports = [message for message in messages if "subagent" in message["metadata"]]
    assert [report["metadata"]["subagent"]["status"] for report in reports] == ["failed"]
    assert messages[-1] == reports[-1]


@pytest.mark.slow
def test_a_task_goes_on_behind_the_agent_that_it_lost(start: Start, provider: ScriptedProvider) -> None:
    agent = start()
    manifest(agent, "looker", LOOKER.format(inspectable="true"))
    provider.script.replace(model(Hang(), look()))
    task = agent.assign()
    eventually(lambda: any("the looker" in system(request) for request in provider.completions))
    agent.process.kill9()
    agent.start()
    done = agent.result(task)
    assert done["status"] == "complete"
    assert "outcome unknown" in json.dumps(told(provider.completions[-1]))
    assert sum("the looker" in system(request) for request in provider.completions) == 1


def test_one_called_by_a_nested_one_reports_to_the_person_s_session(reuse: Start, provider: ScriptedProvider) -> None:
    agent = reuse()
    manifest(agent, "looker", LOOKER.format(inspectable="false"))

    def child(request: Any) -> Any:
        return Say("sent") if told(request) else look("explore", background=True)

    provider.script.replace(model(lambda r: Say("found it") if "find things out" in system(r) else child(r), look()))
    outputs(agent, "s")
    eventually(lambda: "found it" in json.dumps(agent.get("/sessions/s/messages").json()))
    eventually(lambda: agent.status()["sessions"]["running"] == 0)
    provider.script.replace([Say("heard")])
    agent.chat("and?", session_id="s")
    assert "found it" in json.dumps(provider.completions[-1].messages)
    (made,) = [one for one in sessions(agent) if one["agent"] == "explore"]
    asked = agent.get("/sessions/s/messages").json()["messages"][0]
    assert made["parent_message_id"] == asked["id"]
