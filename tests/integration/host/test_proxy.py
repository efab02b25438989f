"""The model proxy on good days: names, keys, streams, prices and the ledger."""

from __future__ import annotations

import json
from hashlib import sha256
from typing import Any

import httpx
import pytest

from agent_testing import Call, Hang, Say, ScriptedProvider

from .live import Host, said

CHAT = "/v1/chat/completions"
REPORTED = {
    "prompt_tokens": 10,
    "completion_tokens": 5,
    "total_tokens": 15,
    "prompt_tokens_details": {"cached_tokens": 4},
    "completion_tokens_details": {"reasoning_tokens": 2},
}
COST = 6 * 1.0 + 5 * 2.0 + 4 * 0.1
BUCKETS = {"input": 6, "output": 3, "reasoning": 2, "cache_read": 4, "cache_write": 0, "cost_usd": COST}


def events(body: bytes) -> list[dict[str, Any]]:
    lines = [line.removeprefix(b"data: ") for line in body.split(b"\n") if line.startswith(b"data: ")]
    assert lines[-1] == b"[DONE]"
    return [json.loads(line) for line in lines[:-1]]


def test_a_whole_answer(agent: httpx.Client, provider: ScriptedProvider, host: Host) -> None:
    provider.script.replace([Say("Hello there.", usage=REPORTED)])
    reply = agent.post(CHAT, json=said("hi", temperature=0.5), headers={"x-request-id": "my-id", "cookie": "a=b"})
    assert reply.status_code == 200
    body = reply.json()
    assert body["choices"][0]["message"]["content"] == "Hello there."
    assert body["usage"] == {**REPORTED, "cost_usd": COST}
    assert reply.headers["x-request-id"] == "my-id"

    (asked,) = provider.requests
    assert asked.json == said("hi", temperature=0.5) | {"model": "big-1"}
    assert asked.headers["authorization"] == "Bearer sk-upstream"
    assert asked.headers.keys() <= {
        *("host", "authorization", "content-type", "content-length", "accept-encoding", "user-agent", "connection"),
    }, "nothing else of the agent's headers goes upstream"

    row = host.recent(limit=1)[0]
    assert row == {
        "request_id": "my-id",
        "agent_id": "writer",
        "team": "default",
        "session": None,
        "caller_session": None,
        "subagent": None,
        "user": None,
        "operation": "chat",
        "model": "default",
        "provider": "upstream",
        "upstream_model": "big-1",
        "streamed": False,
        "status": "complete",
        "http_status": 200,
        "started_at": row["started_at"],
        "duration_ms": row["duration_ms"],
        "usage": BUCKETS,
        "estimated": False,
        "asked_model": None,
        "fallback_reason": None,
    }
    assert row["started_at"] > 1_700_000_000_000


def test_a_streamed_answer(agent: httpx.Client, provider: ScriptedProvider, host: Host) -> None:
    provider.script.replace([Say("Hello there, friend.", usage=REPORTED)])
    reply = agent.post(CHAT, json=said("hi", stream=True, stream_options={"include_usage": True, "other": 1}))
    assert reply.status_code == 200
    assert reply.headers["content-type"] == "text/event-stream"
    assert reply.headers["cache-control"] == "no-cache"
    *pieces, last = events(reply.content)
    text = "".join(choice["delta"].get("content", "") for piece in pieces for choice in piece["choices"])
    assert text == "Hello there, friend."
    assert last["choices"] == []
    assert last["usage"] == {**REPORTED, "cost_usd": COST}
    assert provider.requests[0].json["stream_options"] == {"include_usage": True, "other": 1}
    row = host.recent(limit=1)[0]
    assert (row["streamed"], row["status"], row["usage"]) == (True, "complete", BUCKETS)
    assert row["request_id"] == reply.headers["x-request-id"]


def test_usage_is_written_down_even_when_the_client_does_not_ask(
    agent: httpx.Client, provider: ScriptedProvider, host: Host
) -> None:
    provider.script.replace([Say("Hello.", usage=REPORTED)])
    reply = agent.post(CHAT, json=said("hi", stream=True))
    assert all(event["choices"] for event in events(reply.content))
    assert provider.requests[0].json["stream_options"] == {"include_usage": True}
    assert host.recent(limit=1)[0]["usage"] == BUCKETS


def test_without_a_price_the_bytes_pass_as_they_are(
    agent: httpx.Client, provider: ScriptedProvider, host: Host
) -> None:
    options = {"stream": True, "stream_options": {"include_usage": True}}
    provider.script.replace([Say("Hello.", usage=REPORTED), Say("Hello.", usage=REPORTED)])
    through = agent.post(CHAT, json={**said("hi", **options), "model": "unpriced"}).content
    assert b"cost_usd" not in through
    assert events(through)[-1]["usage"] == REPORTED
    whole = agent.post(CHAT, json={**said("hi"), "model": "unpriced"}).json()
    assert whole["usage"] == REPORTED
    assert host.recent(limit=1)[0]["usage"] == {**BUCKETS, "cost_usd": None}


def test_an_endpoint_that_refuses_stream_options_is_spared_them(
    agent: httpx.Client, provider: ScriptedProvider, host: Host
) -> None:
    reply = agent.post(CHAT, json={**said("say:hello", stream=True), "model": "plain"})
    assert events(reply.content)
    asked = provider.requests[0]
    assert "stream_options" not in asked.json
    assert "authorization" not in asked.headers
    row = host.recent(limit=1)[0]
    assert row["estimated"]
    assert 0 < row["usage"]["output"] < 20


def test_nothing_is_buffered(agent: httpx.Client, provider: ScriptedProvider) -> None:
    provider.script.replace([Hang(after=2, reply=Say("one two three four"), seconds=10)])
    with agent.stream("POST", CHAT, json=said("hi", stream=True)) as reply:
        pieces, seen = reply.iter_bytes(), b""
        while b'"two "' not in seen:
            seen += next(pieces)
        assert b"three" not in seen
        provider.release()
        assert b"four" in b"".join(pieces)


def test_tool_calls_pass(agent: httpx.Client, provider: ScriptedProvider) -> None:
    tools = [{"type": "function", "function": {"name": "read", "parameters": {"type": "object"}}}]
    provider.script.replace([Call("read", {"path": "a.txt"}, text="I read.")])
    reply = agent.post(CHAT, json=said("read it", tools=tools, parallel_tool_calls=False)).json()
    (call,) = reply["choices"][0]["message"]["tool_calls"]
    assert call["function"] == {"name": "read", "arguments": '{"path": "a.txt"}'}
    assert provider.requests[0].json["tools"] == tools
    assert provider.requests[0].json["parallel_tool_calls"] is False


def test_an_idempotency_key_goes_along_as_one_of_the_agents_own(
    agent: httpx.Client, provider: ScriptedProvider, host: Host
) -> None:
    for client in (agent, agent, host.operator):
        client.post(CHAT, json=said("say:hi"), headers={"idempotency-key": "step-7"})
    first, again, other = (request.headers["idempotency-key"] for request in provider.requests)
    assert first == again == sha256(b"writer\nstep-7").hexdigest()
    assert other == sha256(b"operator\nstep-7").hexdigest()


def test_text_of_all_kinds_survives(agent: httpx.Client, provider: ScriptedProvider) -> None:
    text = 'quotes " \\ \u2028 émoji 🙂 "usage": {"prompt_tokens": 1}'
    provider.script.replace([Say(pieces=(text,)), Say(text)])
    stream = agent.post(CHAT, json=said(text, stream=True)).content
    assert events(stream)[1]["choices"][0]["delta"]["content"] == text
    assert provider.requests[0].last_user_text == text


def test_a_long_history_passes(agent: httpx.Client, provider: ScriptedProvider) -> None:
    messages = [{"role": "user", "content": "word " * 2_000} for _ in range(300)]
    body = {"model": "default", "messages": [*messages, {"role": "user", "content": "say:fine"}]}
    reply = agent.post(CHAT, json=body)
    assert reply.json()["choices"][0]["message"]["content"] == "fine"
    assert provider.requests[0].json["messages"] == body["messages"]


def test_the_models_are_listed(agent: httpx.Client) -> None:
    listed = agent.get("/v1/models").json()
    assert listed["object"] == "list"
    names = [card["id"] for card in listed["data"]]
    assert names == ["default", "unpriced", "plain", "embedding", "unreachable", "demo"]
    assert listed["data"][0] == {
        "id": "default",
        "object": "model",
        "created": 0,
        "owned_by": "upstream",
        "context_limit": 200_000,
        "max_output_tokens": 8192,
        "pricing": {"input": 1e6, "output": 2e6, "cache_read": 1e5, "cache_write": None},
        "capabilities": ["chat", "tools"],
        "upstream": "big-1",
        "caching": "none",
    }
    assert agent.get("/v1/models/default").json() == listed["data"][0]


@pytest.mark.parametrize("model", ["embedding", "default"])
def test_embeddings(agent: httpx.Client, provider: ScriptedProvider, host: Host, model: str) -> None:
    reply = agent.post("/v1/embeddings", json={"model": model, "input": ["a cat", "a dog"], "stream": True})
    assert reply.status_code == 200
    assert len(reply.json()["data"]) == 2
    assert provider.requests[-1].path == "/v1/embeddings"
    assert provider.requests[-1].json["model"] == "vectors-1"
    row = host.recent(limit=1)[0]
    assert (row["operation"], row["model"], row["streamed"]) == ("embeddings", "embedding", False)
    assert row["usage"]["input"] > 0


def test_the_demo_model_answers_without_a_provider(agent: httpx.Client, host: Host) -> None:
    reply = agent.post(CHAT, json={**said("hello"), "model": "demo"}).json()
    assert reply["choices"][0]["message"]["content"].startswith("[demo model]")
    stream = agent.post(CHAT, json={**said("hello", stream=True), "model": "demo"}).content
    assert events(stream)
    assert host.recent(limit=1)[0]["provider"] == "demo"


def test_the_operator_may_call_too(host: Host, provider: ScriptedProvider) -> None:
    assert host.operator.post(CHAT, json=said("say:hi")).status_code == 200
    assert host.recent(agent="operator", limit=1)[0]["agent_id"] == "operator"


@pytest.mark.parametrize("name", ["metadata", "service_tier", "store", "thinking", "reasoning"])
def test_the_refusal_of_an_ordinary_field_has_the_line_for_the_catalog(agent: httpx.Client, name: str) -> None:
    reply = agent.post(CHAT, json={**said("hi"), name: {}})
    assert reply.status_code == 400
    error = reply.json()["error"]
    assert (error["param"], error["code"]) == (name, "field_not_allowed")
    assert f"models.default.extra_fields: [{name}]" in error["message"]
