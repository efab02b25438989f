"""The small real model in process, from the host's wire to a runtime's task. Its prose is never judged."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.integration.host.live import Host

TOOLS = [{"type": "function", "function": {"name": name, "parameters": {}}} for name in ("bash", "glob", "read")]
CHAT = "/v1/chat/completions"
NOTICE = "SmolLM2-135M, a very small local model"


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    with Host(tmp_path_factory.mktemp("mesh"), MESH_PROVIDER="local") as host:
        yield host


def said(text: str, **more: Any) -> dict[str, Any]:
    return {"model": "default", "messages": [{"role": "user", "content": text}], "max_tokens": 24, **more}


def test_it_answers_and_counts(host: Host) -> None:
    reply = host.operator.post(CHAT, json=said("What is the capital of France?"), timeout=60)
    assert reply.status_code == 200, reply.text
    body = reply.json()
    assert NOTICE in body["choices"][0]["message"]["content"]
    assert 0 < body["usage"]["completion_tokens"] <= 24
    assert body["usage"]["cost_usd"] == 0
    assert "/" not in body["model"], "where the weights lie is nobody's business"
    row = host.recent(limit=1)[0]
    assert (row["provider"], row["usage"]["output"]) == ("local", body["usage"]["completion_tokens"])


def test_it_streams(host: Host) -> None:
    reply = host.operator.post(CHAT, json=said("Say hello.", stream=True), timeout=60)
    events = [json.loads(line[6:]) for line in reply.text.split("\n") if line.startswith("data: {")]
    assert NOTICE in "".join(event["choices"][0]["delta"].get("content") or "" for event in events)
    assert len(events) > 3
    assert reply.text.rstrip().endswith("data: [DONE]")


def test_it_calls_a_tool(host: Host) -> None:
    reply = host.operator.post(CHAT, json=said("What does notes.txt say?", tools=TOOLS), timeout=60).json()
    assert "choices" in reply, reply
    (call,) = reply["choices"][0]["message"]["tool_calls"]
    assert (call["function"]["name"], json.loads(call["function"]["arguments"])) == ("read", {"path": "notes.txt"})


def test_a_task_comes_to_a_truthful_end(host: Host) -> None:
    made = host.operator.post("/workspaces", json={"id": "small"}).json()
    assert host.operator.post("/workspaces/small/start").json()["state"] == "running"
    home = Path(made["data_dir"]) / "workspace"
    (home / "notes.txt").write_text("The meeting is on Monday.\n")
    task = {
        "workflow_id": "w",
        "step_id": "s",
        "task_type": "question",
        "input_data": {"ask": "What does notes.txt say?"},
        "timeout": 120,
    }
    headers = {"authorization": f"Bearer {made['token']}"}
    with httpx.Client(base_url=made["url"], headers=headers, timeout=120, trust_env=False) as agent:
        task_id = agent.post("/task", json=task).json()["task_id"]
        result = agent.get("/result", params={"task_id": task_id, "wait": 110}).json()
        assert result["status"] == "complete", result
        assert NOTICE in result["result"]["text"]
        assert agent.get("/readyz").status_code == 200
    tokens = [row["usage"]["output"] for row in host.recent(agent="small")]
    assert len(tokens) == 2, "one call of a tool, one answer"
    assert result["usage"]["output"] == sum(tokens)
