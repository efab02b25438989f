"""What a provider gave goes back to it, byte for byte and to nobody else, whatever happens to the session."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent_testing import Raw, Recorded, Say, ScriptedProvider

from ..live import Runtime, fresh
from ..narrow import is_summary

WORDS = "I must read it."
MODELS = ("default", "signed", "other", "forgetful")


def signature(call_id: str) -> dict[str, Any]:
    return {"google": {"thought_signature": f"c2ln{call_id}"}}


class Strict:
    """A provider whose model `signed` refuses a history without what it gave, and whose others refuse all of that."""

    def __init__(self) -> None:
        self.refused: list[str] = []
        self.calls = 0
        self.long_ids = False

    def __call__(self, request: Recorded) -> Any:
        fault = self.fault(request)
        if fault is not None:
            self.refused.append(fault)
            return Raw((json.dumps({"error": {"message": f"strict: {fault}"}}),), 400)
        if is_summary(request):
            return Say("## They have read files.")
        if request.fields["model"] != "signed" or request.messages[-1]["role"] == "tool":
            return Say("done")
        self.calls += 1
        call_id = f"sig{self.calls}" + "__thought__" * 20 * self.long_ids
        call = {"index": 0, "id": call_id, "function": {"name": "read", "arguments": '{"path": "a.txt"}'}}
        deltas = [{"reasoning_content": WORDS}, {"tool_calls": [{**call, "extra_content": signature(call_id)}]}]
        ended = [*((delta, None) for delta in deltas), ({}, "tool_calls")]
        events = [{"choices": [{"index": 0, "delta": delta, "finish_reason": end}]} for delta, end in ended]
        return Raw(tuple(f"data: {json.dumps(event)}\n\n" for event in events))

    @staticmethod
    def fault(request: Recorded) -> str | None:
        if request.fields["model"] != "signed":
            foreign = b"c2lnsig" in request.body or b"reasoning_content" in request.body
            return "what another model gave" if foreign else None
        calls = [(m, c) for m in request.messages for c in m.get("tool_calls") or () if c["id"].startswith("sig")]
        for message, call in calls:
            if call.get("extra_content") != signature(call["id"]):
                return f"{call['id']} lacks its signature"
            if message.get("reasoning_content") != WORDS:
                return f"{call['id']} lacks its reasoning"
        return None

    def last_calls(self, provider: ScriptedProvider) -> list[str]:
        """Ids of the calls in the last request, as they came from the model."""
        messages = provider.completions[-1].messages
        return [call["id"] for message in messages for call in message.get("tool_calls") or ()]


@pytest.fixture(scope="module")
def provider() -> Iterator[ScriptedProvider]:
    with ScriptedProvider(models=MODELS) as provider:
        yield provider


@pytest.fixture(scope="module")
def agent(provider: ScriptedProvider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runtime]:
    with Runtime(provider, tmp_path_factory.mktemp("agent"), AGENT_CONFINEMENT="off") as agent:
        yield agent


@pytest.fixture
def strict(provider: ScriptedProvider) -> Iterator[Strict]:
    strict = Strict()
    provider.script.replace(strict)
    yield strict
    assert strict.refused == []


def turn(agent: Runtime, session: str, model: str = "signed") -> None:
    reply = agent.chat("go", session_id=session, model=model)
    assert (reply.status_code, reply.json().get("response")) == (200, "done"), reply.text


def test_over_a_restart_a_fork_an_export_and_another_model(
    agent: Runtime, provider: ScriptedProvider, strict: Strict, tmp_path: Path
) -> None:
    session = fresh("s")
    turn(agent, session)
    turn(agent, session, "other")
    turn(agent, session)
    agent.start()
    turn(agent, session)
    assert strict.last_calls(provider) == ["sig1", "sig2", "sig3"]
    forked = agent.post(f"/sessions/{session}/fork", {}).json()["id"]
    turn(agent, forked)
    exported = agent.get(f"/sessions/{session}/export").content
    assert exported.count(b"c2lnsig1") == 1
    with Runtime(provider, tmp_path, AGENT_CONFINEMENT="off") as other:
        taken = other.http.post("/sessions/import", content=exported).json()["id"]
        turn(other, taken)
        assert strict.last_calls(provider) == ["sig1", "sig2", "sig3", "sig5"]
        parts = [part for part in other.parts(taken) if "toolCallId" in part]
        assert parts[0]["callProviderMetadata"]["kept"]["call"]["extra_content"] == signature("sig1")


def test_each_request_begins_with_the_one_before(agent: Runtime, provider: ScriptedProvider, strict: Strict) -> None:
    session = fresh("s")
    provider.clear()
    for _ in range(3):
        turn(agent, session)
    before: list[Any] = []
    for request in provider.completions:
        assert request.messages[: len(before)] == before
        before = request.messages
    assert len(provider.completions) == 6


def test_a_rewind_and_a_compaction_drop_it_with_its_call(
    agent: Runtime, provider: ScriptedProvider, strict: Strict
) -> None:
    session = fresh("s")
    for _ in range(3):
        turn(agent, session)
    messages = agent.get(f"/sessions/{session}/messages").json()["messages"]
    last = [message for message in messages if message["role"] == "user"][-1]
    assert agent.post(f"/sessions/{session}/rewind", {"message_id": last["id"]}).status_code == 200
    turn(agent, session)
    assert len(strict.last_calls(provider)) == 3
    assert agent.post(f"/sessions/{session}/compact", {}).status_code == 200
    turn(agent, session)
    assert 1 <= len(strict.last_calls(provider)) < 4


def test_signatures_in_ids_go_back_as_they_came_and_to_others_as_short_ids(
    agent: Runtime, provider: ScriptedProvider, strict: Strict
) -> None:
    session, strict.long_ids = fresh("s"), True
    turn(agent, session)
    turn(agent, session)
    assert all("__thought__" in call_id for call_id in strict.last_calls(provider))
    results = [message["tool_call_id"] for message in provider.completions[-1].messages if message["role"] == "tool"]
    assert results == strict.last_calls(provider)
    turn(agent, session, "other")
    assert all(len(call_id) <= 64 for call_id in strict.last_calls(provider))


def test_a_turn_that_was_killed_at_its_call_goes_on_with_the_signature(
    agent: Runtime, provider: ScriptedProvider, strict: Strict
) -> None:
    (agent.data_dir / "agents").mkdir(exist_ok=True)
    mine = {"mode": "all", "permissions": {"*": "allow"}, "model": "signed"}
    (agent.data_dir / "agents" / "signer.json").write_text(json.dumps(mine))
    reached, killed = threading.Event(), threading.Event()

    def first(request: Recorded) -> Any:
        if request.messages[-1]["role"] == "tool" and not killed.is_set():
            reached.set()
            killed.wait(60)
        return strict(request)

    provider.script.replace(first)
    task = agent.assign(agent="signer")
    assert reached.wait(60)
    agent.process.kill9()
    killed.set()
    agent.start()
    assert agent.result(task)["status"] == "complete"
    assert strict.last_calls(provider) == ["sig1"]


def test_a_model_that_refuses_what_it_gave_itself_is_asked_without(agent: Runtime, provider: ScriptedProvider) -> None:
    def refusing(request: Recorded) -> Any:
        if b"marks" in request.body:
            fault = "messages.1.marks: Extra inputs are not permitted"
            return Raw((json.dumps({"error": {"message": fault}}),), 400)
        call = {"index": 0, "id": "c1", "function": {"name": "read", "arguments": '{"path": "a.txt"}'}}
        event = {"choices": [{"index": 0, "delta": {"marks": ["m"], "tool_calls": [call]}, "finish_reason": "stop"}]}
        return Say("done") if request.messages[-1]["role"] == "tool" else Raw((f"data: {json.dumps(event)}\n\n",))

    provider.script.replace(refusing)
    provider.clear()
    session = fresh("s")
    turn(agent, session, "other")
    turn(agent, session, "other")
    assert sum(b"marks" in request.body for request in provider.completions) == 1


def test_a_model_that_refuses_its_signatures_of_before_still_gets_those_of_the_turn(
    agent: Runtime, provider: ScriptedProvider
) -> None:
    refused: list[str] = []

    def forgetful(request: Recorded) -> Any:
        turn_start = max(at for at, message in enumerate(request.messages) if message["role"] == "user")
        signed = {
            at: "extra_content" in m["tool_calls"][0] for at, m in enumerate(request.messages) if "tool_calls" in m
        }
        fault = "Corrupted thought signature." if any(signed[at] for at in signed if at < turn_start) else ""
        if not all(signed[at] for at in signed if at > turn_start):
            fault = "Function call is missing a thought_signature in functionCall parts."
        if fault:
            refused.append(fault)
            return Raw((json.dumps({"error": {"message": fault}}),), 400)
        if request.messages[-1]["role"] == "tool":
            return Say("done")
        call_id = f"c{len(signed)}"
        call = {"index": 0, "id": call_id, "function": {"name": "read", "arguments": '{"path": "a.txt"}'}}
        delta = {"tool_calls": [{**call, "extra_content": signature(call_id)}]}
        return Raw((f"data: {json.dumps({'choices': [{'delta': delta, 'finish_reason': 'tool_calls'}]})}\n\n",))

    provider.script.replace(forgetful)
    session = fresh("s")
    for _ in range(3):
        turn(agent, session, "forgetful")
    assert refused == ["Corrupted thought signature."]


def test_through_the_api_it_is_where_the_ai_sdk_has_a_place(agent: Runtime, strict: Strict) -> None:
    session = fresh("s")
    turn(agent, session)
    reply = agent.get(f"/sessions/{session}/messages").json()["messages"][-1]
    (call,) = (part for part in reply["parts"] if "toolCallId" in part)
    kept = call["callProviderMetadata"]["kept"]
    assert kept["model"].endswith("/signed")
    assert kept["reasoning"] == "reasoning_content"
