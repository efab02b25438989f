"""The watchdog of a live runtime: the model is told why a call was stopped, and a wrong policy stops the start."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from agent_testing import Call, LiveProcess, Say

from ..conftest import Start
from ..live import PATIENCE, SERVE, Runtime

FORBIDDEN = "This would destroy the whole file system. Name the files or folders that you mean."


def heard(agent: Runtime) -> list[dict[str, Any]]:
    """What the model was told about its calls."""
    messages = agent.provider.completions[-1].messages
    return [json.loads(message["content"]) for message in messages if message["role"] == "tool"]


def test_the_model_hears_why_a_command_was_stopped_and_goes_on(reuse: Start) -> None:
    agent = reuse()
    agent.provider.script.replace(
        [Call("bash", '{"command": "cd / && rm -rf /*"}'), Call("bash", '{"command": "echo fine"}'), Say("done")]
    )
    assert agent.run()["status"] == "complete"
    stopped, ran = heard(agent)
    assert (stopped["type"], stopped["error_text"]) == ("error", FORBIDDEN)
    assert stopped["metadata"]["kind"] == "denied"
    assert ran["data"]["stdout"] == "fine\n"


def test_a_policy_of_ones_own_takes_the_place_of_the_reference(start: Start, tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text(
        'tool.before: [{tool: write, argument: {path: "*.pem"}, action: ask, reason: Keys are not yours.}]'
    )
    agent = start(AGENT_WATCHDOG=policy)
    agent.provider.script.replace(
        [Call("write", '{"path": "a.pem", "content": ""}'), Call("write", '{"path": "a", "content": ""}'), Say("done")]
    )
    assert agent.run()["status"] == "complete"
    stopped, ran = heard(agent)
    assert stopped["error_text"] == "Keys are not yours; it needs a human's approval, and none is here"
    assert ran["data"]["created"]


def test_a_wrong_policy_stops_the_start_with_every_fault(tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text("tool.before:\n  - {tool: bash, action: maybe, reason: x}\n  - {tool: bash, action: deny}\n")
    env = {"AGENT_PORT": "0", "AGENT_DATA_DIR": str(tmp_path / "data"), "AGENT_WATCHDOG": str(policy)}
    with LiveProcess(SERVE, env) as process:
        assert process.wait(PATIENCE) != 0
        said = process.output()
    assert f"AGENT_WATCHDOG: {policy}:2: tool.before[0].action: must be deny or ask, not 'maybe'" in said
    assert f"{policy}:3: tool.before[1].reason: is required" in said
