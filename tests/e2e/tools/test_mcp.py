"""MCP servers behind a live runtime: called by a model, within what the operator allows."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from agent_testing import Call, Say, ScriptedProvider
from tests.integration.connectors.test_hostile import hostile

from ..conftest import Start
from ..live import Runtime, eventually, fresh

FOLDER = Path(__file__).parents[2] / "integration" / "connectors"
DEMO = FOLDER / "demo_server.py"
ALLOWED = 'rules:\n  - {permission: "mcp:demo:*", action: allow}\n  - {permission: "mcp:demo:echo", action: ask}\n'


def demo(*arguments: str, **more: Any) -> dict[str, Any]:
    return {"command": sys.executable, "args": [str(DEMO), "stdio", *arguments], "read": [str(FOLDER)], **more}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "permissions.yaml").write_text(ALLOWED)
    return folder


def serve(data: Path, **servers: Any) -> None:
    (data / "mcp.json").write_text(json.dumps({"mcpServers": servers}))


def call(agent: Runtime, name: str, session: str | None = None, /, **arguments: Any) -> dict[str, Any]:
    agent.provider.script.replace([Call(name, arguments), Say("done")])
    reply = agent.chat("go", session_id=session or fresh("s"))
    assert reply.status_code in (200, 202), reply.text
    return reply.json()


def server_processes(agent: Runtime) -> list[int]:
    found: list[int] = []
    for child in psutil.Process(agent.process.pid).children(recursive=True):
        try:
            if str(DEMO) in child.cmdline():
                found.append(child.pid)
        except psutil.NoSuchProcess:
            continue
    return found


def shown(agent: Runtime, at: int = -1) -> list[str]:
    """The tools that the model saw in one request."""
    return [tool["function"]["name"] for tool in agent.provider.completions[at].fields["tools"]]


def test_a_model_calls_what_the_operator_allows(start: Start, data: Path) -> None:
    serve(data, demo=demo())
    agent = start()
    card = agent.get("/capabilities").json()
    assert card["mcp_servers"] == [
        {"name": "demo", "kind": "local", "state": "idle", "tools": [], "error": None, "faults": []}
    ]
    assert server_processes(agent) == []
    agent.meets_its_servers()
    [output] = call(agent, "demo_add", a=2, b=40)["tool_outputs"]
    assert output["state"] == "output-available", output
    assert output["output"]["data"] == {"structured": {"result": 42}}
    [output] = call(agent, "demo_add", a="2", b="40")["tool_outputs"]
    assert output["output"]["data"] == {"structured": {"result": 42}}, "numbers as texts are converted for servers too"
    card = agent.get("/capabilities").json()
    assert card["mcp_servers"][0]["state"] == "ready"
    assert card["tool_sources"]["demo_add"] == "mcp"
    assert card["tool_contracts"]["demo_add"]["requires"]["capabilities"] == ["mcp.call"]
    assert len(server_processes(agent)) > 0


def test_odd_tools_are_named_and_take_no_other_away(start: Start, data: Path) -> None:
    odd = [{"name": "text", "inputSchema": "{}"}, {"name": "bare"}, None, {"name": "numbers", "title": 7}]
    serve(data, it=hostile(f"TOOLS += {odd!r}"))
    agent = start()
    agent.meets_its_servers()
    [told] = agent.get("/capabilities").json()["mcp_servers"]
    assert told["tools"] == ["it_bare", "it_numbers", "it_ok"]
    assert [line.partition(":")[0] for line in told["faults"]] == ["text", "tool 4 of the list"]


def test_what_no_rule_covers_is_asked_about(start: Start, data: Path) -> None:
    serve(data, demo=demo(), other=demo())
    agent = start()
    agent.meets_its_servers()
    for name in ("demo_echo", "other_add"):
        session = fresh("s")
        arguments = {"text": "hello"} if name == "demo_echo" else {"a": 1, "b": 2}
        reply = call(agent, name, session, **arguments)
        assert reply["status"] == "waiting", reply
        [wait] = reply["pending"]
        agent.provider.script.replace([Say("thank you")])
        answer = agent.post(f"/chat/{session}/answer", {"id": wait["id"], "decision": "once"})
        assert answer.status_code in (200, 202), answer.text
        eventually(lambda session=session: agent.get(f"/sessions/{session}").json()["status"]["state"] == "idle")
        said = agent.get(f"/sessions/{session}/messages").json()["messages"][-1]["parts"]
        [part] = [part for part in said if "toolCallId" in part]
        assert part["state"] == "output-available", part


@pytest.mark.slow
def test_where_nobody_is_it_is_refused(start: Start, data: Path) -> None:
    serve(data, other=demo())
    agent = start()
    agent.meets_its_servers()
    agent.provider.script.replace([Call("other_add", {"a": 1, "b": 2}), Say("done")])
    agent.run()
    told = agent.provider.completions[-1].messages[-1]["content"]
    assert "no rule of agent default covers it; it needs a human's approval, and none is here" in told


@pytest.mark.slow
def test_many_tools_are_found_by_searching_and_stay(start: Start, data: Path) -> None:
    serve(data, demo=demo("30"))
    agent = start()
    agent.meets_its_servers()
    session = fresh("s")
    agent.provider.script.replace(
        [Call("tool_search", {"query": "thing number 17"}), Call("demo_tool_17", {}), Say("done")]
    )
    reply = agent.chat("go", session_id=session).json()
    search, called = reply["tool_outputs"]
    assert search["output"]["data"]["matches"][0] == {"id": "demo_tool_17", "description": "Does thing number 17."}
    assert len(search["output"]["data"]["matches"]) == 10
    assert called["state"] == "output-available"
    before, after = shown(agent, -3), shown(agent, -2)
    assert not any(name.startswith("demo_") for name in before)
    assert after[: len(before)] == before
    assert after[len(before)] == "demo_tool_17"
    assert len(after) == len(before) + 10
    agent.start()  # another life
    agent.meets_its_servers()
    call(agent, "demo_tool_17", session)
    assert shown(agent) == after
    # A name that is not in the list can be called all the same.
    [output] = call(agent, "demo_add", a=1, b=1)["tool_outputs"]
    assert output["state"] == "output-available"


@pytest.mark.slow
def test_the_list_of_tools_grows_only_at_its_end(start: Start, data: Path) -> None:
    serve(data, demo=demo())
    (data / "agents").mkdir()
    tools = 'tools: [read, "mcp:demo:echo", "demo_g*", "mcp:demo:l*"]'
    (data / "agents" / "small.yaml").write_text(f"description: Few tools.\nmode: primary\n{tools}\n")
    agent = start()
    agent.meets_its_servers()
    session = fresh("s")
    agent.provider.script.replace([Call("demo_grow", {"name": "later"}), Say("hello"), Say("hello")])
    agent.chat("hi", session_id=session, agent="small")
    assert shown(agent) == ["demo_echo", "demo_grow", "read"] or shown(agent) == ["read", "demo_echo", "demo_grow"]
    first = shown(agent)
    eventually(lambda: "demo_later" in agent.get("/capabilities").json()["tools"])
    agent.provider.script.replace([Say("hello")])
    agent.chat("hi", session_id=session)
    assert shown(agent) == [*first, "demo_later"]


def test_a_wrong_file_stops_the_start(provider: ScriptedProvider, tmp_path: Path, data: Path) -> None:
    serve(data, demo={"command": "x", "secret": "${NOT_THERE}"}, web={"url": "nowhere"})
    with pytest.raises(RuntimeError) as raised, Runtime(provider, data):
        pass
    assert "server 'demo': secret: no such field" in str(raised.value)
    assert "server 'web': url: must be http:// or https://" in str(raised.value)


@pytest.mark.slow
@pytest.mark.parametrize("end", ["term", "kill"])
def test_no_server_outlives_the_runtime(start: Start, data: Path, end: str) -> None:
    serve(data, demo=demo())
    agent = start()
    agent.meets_its_servers()
    left = server_processes(agent)
    assert left
    if end == "kill":
        os.kill(agent.process.pid, signal.SIGKILL)
    else:
        agent.process.terminate()
    eventually(lambda: not any(_runs(pid) for pid in left), 5)


def _runs(pid: int) -> bool:
    try:
        process = psutil.Process(pid)
        return str(DEMO) in process.cmdline() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@pytest.mark.slow
def test_secrets_of_a_server_are_in_no_log_and_no_answer(start: Start, data: Path) -> None:
    serve(data, demo=demo(env={"API_KEY": "${DEMO_KEY}"}))
    os.environ["DEMO_KEY"] = secret = "k-123456789-secret"
    try:
        agent = start(AGENT_LOG_LEVEL="debug")
    finally:
        del os.environ["DEMO_KEY"]
    agent.meets_its_servers()
    [output] = call(agent, "demo_die", words=f"wrong key: {secret[:2]}... {secret}")["tool_outputs"]
    assert output["state"] == "output-error"
    # What the model says itself is its own affair; what the server says of its death is not.
    assert "wrong key: k-... [redacted]" in output["output"]
    eventually(lambda: "mcp server not connected" in agent.process.output())
    lines = [json.loads(line) for line in agent.process.output().splitlines() if line.startswith("{")]
    assert not any(
        secret in json.dumps(line) for line in lines if line["logger"].startswith("agent_runtime.connectors")
    )
    for path in ("/capabilities", "/status"):
        assert secret not in agent.get(path).text


def prompt_of(agent: Runtime, session: str, /, **more: Any) -> str:
    """The system prompt of a turn in that session."""
    agent.provider.script.replace([Say("hello")])
    agent.provider.clear()
    assert agent.chat("hello", session_id=session, **more).status_code == 200
    return agent.provider.completions[-1].messages[0]["content"]


def servers(agent: Runtime) -> list[dict[str, Any]]:
    return agent.get("/capabilities").json()["mcp_servers"]


def index(prompt: str) -> list[str]:
    """The lines about servers."""
    _, opened, rest = prompt.partition("<mcp_servers>\n")
    section, closed, _ = rest.partition("</mcp_servers>")
    assert bool(opened) == bool(closed)
    return [line for line in section.splitlines() if line.startswith("- ")]


@pytest.mark.slow
def test_the_prompt_tells_which_servers_there_are(start: Start, data: Path) -> None:
    serve(data, demo=demo(), off=demo(enabled=False), second=demo())
    agent = start()
    early, late = fresh("s"), fresh("s")
    first = prompt_of(agent, early)
    assert [line.partition(":")[0] for line in index(first)] == ["- demo", "- second"]
    assert "demo_echo" not in agent.provider.completions[-1].tool_names, "it must be searched for"
    eventually(lambda: {"ready"} == {one["state"] for one in servers(agent) if one["name"] != "off"})
    (known, _) = index(prompt_of(agent, late))
    assert "demo_echo" in known
    assert prompt_of(agent, early) == first, "the prompt of a session stays as it is"
    assert index(prompt_of(agent, fresh("s"), agent="explore")) == [], "it may use none"
    agent.start()
    assert prompt_of(agent, early) == first
