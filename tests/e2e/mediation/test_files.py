"""The file door: `agent-runtime run` with a file for the request and one for the result."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from agent_testing import Hang, LiveProcess, Say, ScriptedProvider
from tests.e2e.live import SERVE, eventually

pytestmark = pytest.mark.slow

COMMAND = [*SERVE[:-1], "run"]


class Box:
    """A workspace for one piece of work."""

    def __init__(self, provider: ScriptedProvider, folder: Path) -> None:
        self.folder = folder
        self.env = {
            "AGENT_DATA_DIR": str(folder / "data"),
            "AGENT_LLM_BASE_URL": provider.url,
            "HOME": str(folder / "home"),
            "PATH": "/usr/bin:/bin",
        }

    def put(self, request: Any) -> None:
        (self.folder / "input.json").write_text(request if isinstance(request, str) else json.dumps(request))

    def run(self) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            COMMAND, check=False, cwd=self.folder, env=self.env, capture_output=True, text=True, timeout=50
        )

    @property
    def result(self) -> dict[str, Any]:
        return json.loads((self.folder / "result.json").read_text())


@pytest.fixture
def box(provider: ScriptedProvider, tmp_path: Path) -> Box:
    return Box(provider, tmp_path)


def test_the_same_file_is_the_same_work(box: Box, provider: ScriptedProvider) -> None:
    box.put({"content": "say:pong"})
    assert box.run().returncode == 0
    first = box.result
    assert (first["status"], first["content"]) == ("completed", "pong")
    assert box.run().returncode == 0
    assert box.result == first
    assert len(provider.completions) == 1


def test_no_link_in_the_agents_folder_leads_the_result_elsewhere(box: Box) -> None:
    """The result may lie in the workspace, where the agent's commands have made what they like."""
    elsewhere = box.folder / "elsewhere"
    elsewhere.write_text("untouched")
    (box.folder / ".result.json.part").symlink_to(elsewhere)
    box.put({"content": "say:pong"})
    assert box.run().returncode == 0
    assert (elsewhere.read_text(), (box.folder / "result.json").is_symlink()) == ("untouched", False)
    assert box.result["content"] == "pong"


@pytest.mark.parametrize(
    "task",
    [
        {"workflow_id": "w", "step_id": "s", "task_type": "sum", "input_data": {"n": [1, 2]}},
        {"objective": "Add 1 and 2"},
    ],
)
def test_a_task_assignment_is_a_request_too(box: Box, provider: ScriptedProvider, task: dict[str, Any]) -> None:
    provider.script.replace([Say('{"result": {"total": 3}}')])
    box.put({"task_id": "sum-1", **task})
    assert box.run().returncode == 0
    assert box.result["request_id"] == "sum-1"
    assert json.loads(box.result["content"])["result"] == {"total": 3}


@pytest.mark.parametrize(
    ("request_", "told"),
    [
        ("{", "the line is no JSON"),
        ({"request_id": "r"}, "content: is missing"),
        ({"content": "x", "contnt": 1}, "contnt: unknown field; remove it"),
        ({"content": "x", "bounds": {"max_tokens": 0}}, "bounds.max_tokens"),
        (None, "input.json cannot be read"),
    ],
)
def test_a_file_that_cannot_be_read_is_told_what_is_wrong(box: Box, request_: Any, told: str) -> None:
    if request_ is not None:
        box.put(request_)
    done = box.run()
    assert done.returncode == 1
    assert told in done.stderr
    assert not (box.folder / "result.json").exists()


def test_work_that_is_not_completed_says_so(box: Box) -> None:
    box.put({"content": "tools:3", "bounds": {"max_tool_calls": 1}})
    assert box.run().returncode == 1
    assert box.result["status"] == "yielded"


def test_a_crash_costs_a_step(box: Box, provider: ScriptedProvider) -> None:
    provider.script.replace([Hang(after=1, reply=Say("one two"))])
    box.put({"request_id": "req-1", "content": "work"})
    with LiveProcess(COMMAND, box.env, cwd=box.folder) as process:
        provider.wait_for(1)
        eventually((box.folder / "data/agent.db").exists)
        process.kill9()
    provider.script.replace([Say("done")])
    assert box.run().returncode == 0
    assert box.result["content"].endswith("done")
    assert box.result["request_id"] == "req-1"


def test_a_limit_on_cost_needs_a_price_at_this_door_too(box: Box, provider: ScriptedProvider) -> None:
    given = {"task_id": "sum-1", "workflow_id": "w", "step_id": "s", "task_type": "sum", "input_data": {"n": [1, 2]}}
    box.put({**given, "token_budget": {"max_cost_usd": 1.0}})
    assert box.run().returncode == 1
    assert box.result["status"] == "denied"
    assert box.result["error"].startswith("unpriced_model: ")
    assert provider.completions == []
