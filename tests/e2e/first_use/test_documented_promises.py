"""What the pages promise of tools and of agents that call each other, as somebody sees it who never read the code."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agent_testing import Call, Say, ScriptedProvider

from ..conftest import Start
from ..live import Runtime, eventually, fresh

CHILD = """description: Looks.
mode: all
inspectable: {inspectable}
prompt: You are the looker.
permissions: {{"*": allow}}
"""
TEN = {"prompt_tokens": 9, "completion_tokens": 1, "total_tokens": 10}


def heard(request: Any) -> list[dict[str, Any]]:
    return [json.loads(message["content"]) for message in request.messages if message["role"] == "tool"]


def looker(request: Any) -> bool:
    return "You are the looker" in str(request.messages[0]["content"])


def add_looker(agent: Runtime, *, inspectable: bool) -> None:
    (agent.data_dir / "agents").mkdir(exist_ok=True)
    (agent.data_dir / "agents" / "looker.yaml").write_text(CHILD.format(inspectable=str(inspectable).lower()))


def look(**more: Any) -> Call:
    return Call("task", {"subagent_type": "looker", "prompt": "look", **more})


def test_of_several_writes_of_one_path_in_one_step_the_last_one_stays(agent: Runtime) -> None:
    def answer(request: Any) -> Any:
        if heard(request):
            return Say("done")
        return Say("", calls=tuple(Call("write", {"path": path, "content": str(i)}) for i in range(4)))

    agent.provider.script.replace(answer)
    left: list[str] = []
    for _ in range(12):
        path = fresh("order")
        assert agent.chat("write", session_id=fresh("s")).status_code == 200
        left.append((agent.data_dir / "workspace" / path).read_text())
    assert left == ["3"] * 12


@pytest.mark.parametrize("inspectable", [True, False])
def test_a_task_says_what_its_budget_was_held_against(
    reuse: Start, provider: ScriptedProvider, inspectable: bool
) -> None:
    agent = reuse()
    add_looker(agent, inspectable=inspectable)
    provider.script.replace(
        lambda request: (
            Say("", calls=(Call("read", {"path": f"{len(heard(request))}"}),), usage=TEN)
            if looker(request)
            else Say("", calls=(look(),), usage=TEN)
        )
    )
    result = agent.run(token_budget={"max_tokens": 45})
    assert result["error_code"] == "budget_exhausted"
    assert result["tokens_used"] >= 45


def test_a_session_that_is_put_away_stops_what_it_called_in_the_background(
    reuse: Start, provider: ScriptedProvider
) -> None:
    agent = reuse()
    add_looker(agent, inspectable=True)

    def answer(request: Any) -> Any:
        if looker(request):
            return Say("", calls=(Call("bash", {"command": "sleep 20"}),))
        return Say("over") if heard(request) else Say("", calls=(look(background=True),))

    provider.script.replace(answer)
    assert agent.chat("go", session_id="parent").status_code == 200
    eventually(lambda: agent.status()["sessions"]["running"] == 1)
    with agent.client() as client:
        assert client.delete("/sessions/parent").status_code == 200
    eventually(lambda: agent.status()["sessions"]["running"] == 0, timeout=60)


def test_a_nested_transcript_keeps_every_call(reuse: Start, provider: ScriptedProvider) -> None:
    agent = reuse()
    add_looker(agent, inspectable=False)
    (agent.data_dir / "workspace" / "long.txt").write_text("y\n" * 102_400)

    def answer(request: Any) -> Any:
        if looker(request):
            return Say("seen") if heard(request) else Say("", calls=(Call("read", {"path": "long.txt"}),))
        return Say("over") if heard(request) else Say("", calls=(look(),))

    provider.script.replace(answer)
    (output,) = agent.chat("go", session_id="parent").json()["tool_outputs"]
    transcript = output["output"]["metadata"]["transcript"]
    assert [part["type"] for part in transcript] == ["step-start", "tool-read", "step-start", "text"]


@pytest.mark.parametrize("pattern", ["{root}/secret.txt", "{{workspace}}/secret.txt"])
def test_a_path_may_be_denied_however_it_is_written(agent: Runtime, pattern: str) -> None:
    root = agent.data_dir / "workspace"
    (root / "secret.txt").write_text("secret")
    session = fresh("s")
    agent.provider.script.replace(lambda _: Say("hello"))
    agent.chat("hello", session_id=session)
    rule = {"permission": "read", "pattern": pattern.format(root=root), "action": "deny"}
    with agent.client() as client:
        assert client.put(f"/sessions/{session}/permissions", json={"rules": [rule]}).status_code == 200
    agent.provider.script.replace(
        lambda request: Say("done") if heard(request) else Call("read", {"path": "secret.txt"})
    )
    (output,) = agent.chat("read", session_id=session).json()["tool_outputs"]
    assert output["state"] == "output-error"
