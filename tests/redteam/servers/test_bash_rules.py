"""Scripts written to get past rules for `bash`, against a live runtime where no person can be asked."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from agent_testing import Call, Say, ScriptedProvider
from tests.e2e.live import Runtime, fresh
from tests.redteam.bash_scripts import ATTACKS

NARROW = """\
description: May look at the repository.
mode: all
permissions: {bash: {"git status": allow, "ls": allow, "echo *": allow}}
"""
HEAVY = ("env " * 29_000, "xargs " * 19_000, "a|" * 29_000, "timeout 1 " * 11_000)


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runtime]:
    data = tmp_path_factory.mktemp("rules")
    (data / "agents").mkdir()
    (data / "agents" / "narrow.yaml").write_text(NARROW)
    with ScriptedProvider() as provider, Runtime(provider, data) as runtime:
        yield runtime


def test_no_script_gets_a_command_past_a_narrow_rule(agent: Runtime) -> None:
    scripts = [script.replace("PLANT", f"touch planted-{at}") for at, script in enumerate(ATTACKS)]
    calls = tuple(Call("bash", {"command": script}) for script in ("git status", *scripts))
    agent.provider.script.replace([Say(calls=calls), Say("over")])
    assert agent.run(agent="narrow")["status"] == "complete"
    answers = [one["content"] for one in agent.provider.completions[-1].messages if one["role"] == "tool"]
    assert '"type":"output"' in answers[0].replace(" ", ""), answers[0]
    workspace = agent.data_dir / "workspace"
    planted = sorted(int(path.name.removeprefix("planted-")) for path in workspace.glob("planted-*"))
    assert [scripts[at] for at in planted] == []


def test_scripts_that_are_hard_to_read_delay_no_other_session(agent: Runtime) -> None:
    """None of the heavy scripts is allowed to run: what takes time is to read them. An answer of a megabyte delays
    others by itself; so they are compared with texts that nobody reads."""
    unread = longest_beside(agent, "no_such_tool")
    longest = longest_beside(agent, "bash")
    assert longest < 2 * unread + 1, f"{unread:.2f} s beside texts that are not read"


def longest_beside(agent: Runtime, tool: str) -> float:
    """Return how many seconds a light turn takes at most while another turn calls a tool with the heavy scripts."""
    heavy = tuple(Call(tool, {"command": script}) for script in HEAVY * 2)

    def model(request: Any) -> Any:
        if request.messages[-1]["role"] == "tool":
            return Say("over")
        return Say(calls=heavy) if "heavy" in str(request.messages) else Call("bash", {"command": "echo hi"})

    agent.provider.script.replace(model)
    task = agent.assign(agent="narrow", input_data={"ask": "heavy"})
    longest = 0.0
    while agent.record(task)["status"] == "running":
        began = time.monotonic()
        reply = agent.chat("light", session_id=fresh("s"), agent="narrow")
        assert reply.json()["tool_outputs"][0]["output"]["data"]["stdout"] == "hi\n"
        longest = max(longest, time.monotonic() - began)
    assert agent.result(task)["status"] == "complete"
    return longest
