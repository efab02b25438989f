"""Requests as a provider's prompt cache wants them, from a live runtime: each begins with all of the one before."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent_common.protocol import ModelCard
from agent_testing import Call, Recorded, Say, ScriptedProvider

from ..live import Runtime, eventually, fresh

CARDS = (
    ModelCard(id="default", caching="breakpoints"),
    ModelCard(id="keyed", caching="key"),
    ModelCard(id="forgetful", caching="automatic"),
)
LONG = {"prompt_tokens": 5000, "completion_tokens": 1}


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[Runtime]:
    with ScriptedProvider(models=CARDS) as provider, Runtime(provider, tmp_path / "data") as runtime:
        eventually(lambda: any(request.path.endswith("/models") for request in provider.requests))
        yield runtime


def unmarked(request: Recorded) -> list[dict[str, Any]]:
    def text(content: Any) -> Any:
        return content[0]["text"] if isinstance(content, list) else content

    return [{**message, "content": text(message["content"])} for message in request.messages]


def turn(agent: Runtime, session: str, *calls: Call, model: str = "default") -> None:
    agent.provider.script.append(*calls, Say("done", usage=LONG))
    reply = agent.chat("go", session_id=session, model=model)
    assert reply.status_code == 200, reply.text


def test_requests_carry_two_marks_and_extend_each_other_over_a_restart(agent: Runtime) -> None:
    session = fresh("s")
    agent.provider.script.replace([])
    for life in range(2):
        for _ in range(2):
            turn(agent, session, Call("glob", {"pattern": "*"}), Call("bash", {"command": "echo hi"}))
        if not life:
            agent.start()
            eventually(lambda: agent.provider.requests[-1].path.endswith("/models"))
    asked = agent.provider.completions
    assert len(asked) == 12
    before: list[dict[str, Any]] = []
    for request in asked:
        assert unmarked(request)[: len(before)] == before
        before = unmarked(request)
        assert request.fields["tools"] == asked[0].fields["tools"]
        marks = [at for at, message in enumerate(request.messages) if "cache_control" in json.dumps(message)]
        assert marks == [0, len(request.messages) - 1]
        assert "prompt_cache_key" not in request.fields


def test_requests_of_a_session_share_a_key(agent: Runtime) -> None:
    agent.provider.script.replace([])
    sessions = [fresh("s"), fresh("s")]
    for session in (*sessions, *sessions):
        turn(agent, session, model="keyed")
    keys = [request.fields["prompt_cache_key"] for request in agent.provider.completions]
    assert keys[:2] == keys[2:]
    assert len(set(keys)) == 2
    assert "cache_control" not in json.dumps(agent.provider.completions[-1].fields)


def test_a_model_that_never_hits_its_cache_is_named(agent: Runtime) -> None:
    agent.provider.script.replace([], otherwise=Say("done", usage=LONG))
    session = fresh("s")
    assert agent.status()["cold_models"] == []
    for _ in range(6):
        turn(agent, session, model="forgetful")
    assert agent.status()["cold_models"] == ["forgetful"]
    agent.process.wait_for_output("prompt cache is never hit")
