"""A name with fallbacks: who answers, what the client and the ledger are told, and how a dead provider rests."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from agent_testing import Call, Drop, Fail, FakeAnthropic, Garbage, Hang, Raw, Say, ScriptedProvider, Step

from .live import Host, said

CHAT = "/v1/chat/completions"
CATALOG = """
providers:
  first: {{base_url: "{first}"}}
  second: {{base_url: "{second}", stream_usage: false}}
  claude: {{kind: anthropic, base_url: "{claude}"}}
  nobody: {{base_url: "http://127.0.0.1:1/v1"}}
  gone: {{base_url: "{first}"}}
  absent: {{base_url: "http://127.0.0.1:1/v1"}}
models:
  default: {{provider: first, model: big-1, fallbacks: [vectors, second, third], pricing: {{input: 1, output: 1}}}}
  second: {{provider: second, model: big-2, pricing: {{input: 1000000, output: 1000000}}}}
  third: {{provider: claude, model: claude-sonnet-5-5}}
  native: {{provider: claude, model: claude-sonnet-5-5, fallbacks: [second]}}
  vectors: {{provider: first, model: vectors-1, capabilities: [embeddings]}}
  cold: {{provider: first, caching: automatic}}
  dead: {{provider: nobody, fallbacks: [second]}}
  priced: {{provider: gone, fallbacks: [unpriced], pricing: {{input: 1, output: 1}}}}
  unpriced: {{provider: second, model: of-nobody-1}}
  careful: {{provider: absent, fallbacks: [picky]}}
  picky:
    {{provider: second, model: mistral-9,
     profile: {{two_users: false, description_limit: 12, reasoning_required: true}}}}
  for-effort: {{provider: absent, fallbacks: [effortless]}}
  effortless: {{provider: second, model: gpt-5.6, profile: {{effort_with_tools: none}}}}
  for-marks: {{provider: absent, fallbacks: [marked]}}
  marked: {{provider: second, caching: breakpoints}}
  for-keys: {{provider: absent, fallbacks: [keyed]}}
  keyed: {{provider: second, caching: key}}
"""
FAULT = 'data: {"error": {"message": "the model is overloaded", "code": 503}}\n\ndata: [DONE]\n\n'
OPENED = 'data: {"id": "1", "choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]}\n\n'
BROKEN_OFF = 'data: {"id": "1", "choices": [{"index": 0, "delta": {}, "finish_reason": "network_error"}]}\n\n'


@pytest.fixture(scope="module")
def models() -> Iterator[tuple[ScriptedProvider, ScriptedProvider, FakeAnthropic]]:
    with ScriptedProvider([]) as first, ScriptedProvider([]) as second, FakeAnthropic([]) as claude:
        yield first, second, claude


@pytest.fixture(scope="module")
def shared(models: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Host, str]]:
    first, second, claude = models
    folder: Path = tmp_path_factory.mktemp("fallbacks")
    (folder / "models.yaml").write_text(CATALOG.format(first=first.url, second=second.url, claude=claude.url))
    with Host(folder / "data", MESH_MODELS=folder / "models.yaml", MESH_UPSTREAM_IDLE_TIMEOUT=1) as host:
        yield host, host.token("writer")


@pytest.fixture
def host(shared: tuple[Host, str]) -> Host:
    return shared[0]


@pytest.fixture
def agent(shared: tuple[Host, str], models: Any) -> Iterator[httpx.Client]:
    """The agent, whose providers have all just answered, so that none rests."""
    with shared[0].client(shared[1]) as client:
        for name, model in zip(("default", "second", "third"), models, strict=True):
            model.script.replace([Say("I am well.")])
            reply = client.post(CHAT, json=said("hi", model=name))
            assert (reply.status_code, "x-model" in reply.headers) == (200, False)
            model.script.replace([])
            model.clear()
        yield client


def streamed(reply: httpx.Response) -> tuple[str, list[dict[str, Any]]]:
    lines = [line.strip() for line in reply.text.split("\n\n")]
    payloads = [line.removeprefix("data: ") for line in lines if line.startswith("data:")]
    events = [json.loads(payload) for payload in payloads if payload != "[DONE]"]
    deltas = [choice["delta"] for event in events for choice in event.get("choices", [])]
    return "".join(delta.get("content") or "" for delta in deltas), events


FAILURES: list[tuple[Step, str, bool]] = [
    *((step, why, stream) for stream in (True, False) for step, why in (
        (Fail(503), "scripted failure"),
        (Fail(529), "scripted failure"),
        (Fail(429), "scripted failure"),
        (Fail(402, "insufficient balance"), "insufficient balance"),
        (Fail(403, "Insufficient account balance"), "account balance"),
        (Drop(after=0), "cannot be reached"),
    )),
    (Raw(("\x8b\x02",), 429, {"content-encoding": "br"}, "latin-1"), "compresses its answer as br", True),
    (Garbage(OPENED + FAULT), "overloaded", True),
    (Garbage(OPENED), "before its first token", True),
    (Garbage(OPENED + "data: [DONE]\n\n"), "before its first token", True),
    (Garbage(OPENED + BROKEN_OFF), "network_error", True),
    (Garbage('data: {"error": {"name": "AI_APICallError", "message": "Bad gateway"}}\n\n'), "Bad gateway", True),
    (Garbage('data: {"choices": null, "base_resp": {"status_code": 1002, "status_msg": "rate"}}\n\n'), "rate", True),
    (Raw((BROKEN_OFF.removeprefix("data: "),), headers={"content-type": "application/json"}), "network_error", False),
]  # fmt: skip


@pytest.mark.parametrize(("step", "why", "stream"), FAILURES)
def test_the_next_is_asked_before_the_first_token(
    host: Host, agent: httpx.Client, models: Any, step: Step, why: str, stream: bool
) -> None:
    first, second, _ = models
    first.script.replace([step])
    second.script.replace([Say("I stand in.")])
    reply = agent.post(CHAT, json=said("hi", stream=stream, stream_options={"include_usage": False}))
    assert reply.status_code == 200
    text = streamed(reply)[0] if stream else reply.json()["choices"][0]["message"]["content"]
    assert text == "I stand in."
    assert reply.headers["x-model"] == "second"
    assert reply.headers["x-fallback-reason"].startswith("default: ")
    assert why in reply.headers["x-fallback-reason"]
    assert second.completions[-1].json["model"] == "big-2"
    answered, failed = host.recent(limit=2)
    assert (failed["model"], failed["status"], failed["asked_model"]) == ("default", "failed", None)
    assert (answered["model"], answered["asked_model"], answered["status"]) == ("second", "default", "complete")
    assert why in answered["fallback_reason"]
    assert answered["usage"]["cost_usd"] > 1, "at the price of the one that answered"
    assert answered["request_id"] == failed["request_id"]


def test_a_silent_provider_is_replaced_after_its_time_out(agent: httpx.Client, models: Any) -> None:
    first, second, _ = models
    first.script.replace([Hang(after=0)])
    second.script.replace([Say("I stand in.")])
    reply = agent.post(CHAT, json=said("hi", stream=True))
    assert streamed(reply)[0] == "I stand in."
    first.release()


def test_after_the_first_token_nobody_else_is_asked(agent: httpx.Client, models: Any) -> None:
    first, second, _ = models
    first.script.replace([Drop(after=2)])
    reply = agent.post(CHAT, json=said("hi", stream=True))
    assert streamed(reply)[1][-1]["error"]["code"] == "provider_dropped"
    first.script.replace([Call("read", {})])
    assert agent.post(CHAT, json=said("hi", stream=True)).status_code == 200
    assert second.completions == []


@pytest.mark.parametrize("step", [Fail(400, "a bad request"), Fail(404), Garbage('data: {"error": {"code": 400}}\n\n')])
def test_what_is_wrong_with_the_request_stays(agent: httpx.Client, models: Any, step: Step) -> None:
    first, second, _ = models
    first.script.replace([step])
    reply = agent.post(CHAT, json=said("hi", stream=True))
    assert "error" in reply.text
    assert second.completions == []


@pytest.mark.parametrize(
    ("kind", "asked"),
    [("rate_limit_error", True), ("billing_error", True), ("overloaded_error", True), ("invalid_request_error", False),
     ("permission_error", False)],
)  # fmt: skip
def test_an_error_inside_a_native_answer_means_what_its_status_would(
    agent: httpx.Client, models: Any, kind: str, asked: bool
) -> None:
    _, second, claude = models
    error = {"type": "error", "error": {"type": kind, "message": "No."}}
    claude.script.replace([Garbage(f"event: error\ndata: {json.dumps(error)}\n\n")])
    second.script.replace([Say("I stand in.")])
    reply = agent.post(CHAT, json=said("hi", model="native", stream=True))
    assert streamed(reply)[0] == ("I stand in." if asked else "")
    assert asked or reply.json()["error"]["message"] == "No."


def test_an_answer_without_a_word_is_one_if_it_ended_well(agent: httpx.Client, models: Any) -> None:
    first, second, _ = models
    for end in ("stop", "length", "content_filter"):
        first.script.replace([Garbage(OPENED + BROKEN_OFF.replace("network_error", end) + "data: [DONE]\n\n")])
        assert f'"finish_reason": "{end}"' in agent.post(CHAT, json=said("hi", stream=True)).text
    assert second.completions == []


def test_the_last_failure_is_the_clients(agent: httpx.Client, models: Any, host: Host) -> None:
    first, second, claude = models
    for model, step in ((first, Fail(503)), (second, Garbage(OPENED + FAULT)), (claude, Fail(529))):
        model.script.replace([step])
    reply = agent.post(CHAT, json=said("hi", stream=True))
    assert (reply.status_code, reply.json()["error"]["message"]) == (529, "Overloaded")
    assert [row["model"] for row in host.recent(limit=3)] == ["third", "second", "default"]


def test_another_dialect_stands_in(agent: httpx.Client, models: Any) -> None:
    first, second, claude = models
    first.script.replace([Fail(503)])
    second.script.replace([Fail(500)])
    claude.script.replace([Say("Bonjour.")])
    reply = agent.post(CHAT, json=said("hi", stream=True))
    assert streamed(reply)[0] == "Bonjour."
    assert reply.headers["x-model"] == "third"


MARK = {"cache_control": {"type": "ephemeral"}}
READ = {"name": "read", "description": "Read a file.  All of it.", "parameters": {}}
TOOLS = [{"type": "function", "function": READ, **MARK}]
CALL = {"id": "call_of_another_model", "type": "function", "function": {"name": "read", "arguments": "{}"}, "mark": "S"}
HISTORY: list[Any] = [
    {"role": "user", "content": [{"type": "text", "text": "one"}, {"type": "text", "text": "and", **MARK}]},
    {"content": "two", "role": "user"},
    {"tool_calls": [CALL], "content": None, "role": "assistant", "reasoning_content": "a thought"},
    {"content": "its text", "role": "tool", "tool_call_id": "call_of_another_model"},
    {"role": "user", "content": [{"type": "text", "text": "three", **MARK}]},
]


def test_a_fallback_is_sent_what_it_takes(agent: httpx.Client, models: Any) -> None:
    models[1].script.replace(otherwise=Say("Read."))
    more = {"messages": HISTORY, "tools": TOOLS, "max_tokens": 9, "prompt_cache_key": "of the first"}
    assert agent.post(CHAT, json=said("", model="careful") | more).status_code == 200
    (request,) = models[1].wait_for(1)
    joined, call, result, between, last = request.json["messages"]
    assert joined["content"] == [{"type": "text", "text": text} for text in ("one", "and", "two")]
    assert call.keys() == {"role", "content", "tool_calls", "reasoning_content"}
    assert (call["content"], call["reasoning_content"], between["reasoning_content"]) == (None, "", "")
    (made,) = call["tool_calls"]
    assert re.fullmatch(r"[A-Za-z0-9]{9}", made["id"])
    assert (made.keys(), result["tool_call_id"]) == ({"id", "type", "function"}, made["id"])
    assert (between["role"], last) == ("assistant", {"role": "user", "content": "three"})
    (tool,) = request.json["tools"]
    assert (tool.keys(), tool["function"]["description"]) == ({"type", "function"}, "Read a fi...")
    assert "prompt_cache_key" not in request.json
    for model, keyed, marks in (("for-marks", False, 3), ("for-keys", True, 0)):
        assert agent.post(CHAT, json=said("", model=model) | more).status_code == 200
        sent = models[1].completions[-1].json
        assert ("prompt_cache_key" in sent, json.dumps(sent).count("cache_control")) == (keyed, marks)


@pytest.mark.parametrize(
    ("model", "tools", "given", "sent"),
    [
        ("for-effort", TOOLS, None, "none"),
        ("for-effort", TOOLS, "high", "none"),
        ("for-effort", None, "high", "high"),
        ("for-marks", TOOLS, "none", None),
        ("for-marks", TOOLS, "high", "high"),
    ],
)
def test_a_fallback_is_asked_for_the_effort_that_it_takes_with_tools(
    agent: httpx.Client, models: Any, model: str, tools: Any, given: str | None, sent: str | None
) -> None:
    models[1].script.replace([Say("Read.")])
    more = {name: value for name, value in (("tools", tools), ("reasoning_effort", given)) if value}
    assert agent.post(CHAT, json=said("hi", model=model) | more).status_code == 200
    assert models[1].wait_for(1)[-1].json.get("reasoning_effort") == sent


@pytest.mark.parametrize("odd", [[1], ["text"], [{"role": "user"}, {"role": "assistant", "tool_calls": [{"id": 5}]}]])
def test_a_fallback_says_itself_what_is_wrong_with_odd_messages(agent: httpx.Client, models: Any, odd: Any) -> None:
    models[1].script.replace([Say("Odd.")])
    reply = agent.post(CHAT, json=said("", model="careful") | {"messages": odd, "tools": [{"type": "custom"}]})
    assert reply.status_code in (200, 400)


def test_a_dead_provider_rests_and_its_fallback_is_asked_at_once(host: Host, agent: httpx.Client, models: Any) -> None:
    _, second, _ = models
    second.script.replace(otherwise=Say("I stand in."))
    replies = [agent.post(CHAT, json=said("hi", model="dead")) for _ in range(4)]
    assert {reply.json()["choices"][0]["message"]["content"] for reply in replies} == {"I stand in."}
    assert replies[-1].headers["x-fallback-reason"] == "the provider 'nobody' rests after several outages"
    rows = [(row["model"], row["status"]) for row in host.recent(limit=7)]
    assert rows == [("second", "complete"), *[("second", "complete"), ("dead", "failed")] * 3]
    resting = host.operator.get("/usage").json()["resting_providers"]
    assert 0 < resting["nobody"] <= 15
    assert 'mesh_provider_resting{provider="nobody"} 1' in host.operator.get("/metrics").text


def test_a_fallback_without_a_price_under_a_budget_does_not_hide_the_outage(host: Host, models: Any) -> None:
    models[0].script.replace([Fail(503)] * 4 + [Say("I am back.")])
    models[1].script.replace(otherwise=Say("I have no price."))
    assert host.operator.put("/budgets/agent:saver", json={"daily_usd": 1000}).status_code == 201
    with host.client(host.token("saver")) as saver:
        replies = [saver.post(CHAT, json=said("hi", model="priced")) for _ in range(5)]
    assert [reply.status_code for reply in replies] == [503] * 4 + [200], "it is asked while its provider rests, too"
    assert {reply.json()["error"]["message"] for reply in replies[:4]} == {"scripted failure"}
    assert replies[4].json()["choices"][0]["message"]["content"] == "I am back."
    assert "x-model" not in replies[4].headers


def test_a_cache_that_is_never_hit_is_told(host: Host, agent: httpx.Client, models: Any) -> None:
    first, _, claude = models
    first.script.replace(otherwise=Say("ok"))
    system = {"role": "system", "content": "rules " * 2000}

    def ask(model: str, times: int) -> None:
        for number in range(times):
            messages = [system, {"role": "user", "content": f"question {number}"}]
            assert agent.post(CHAT, json={"model": model, "messages": messages}).status_code == 200

    claude.script.replace(otherwise=Say("ok"))
    ask("third", 7)
    ask("cold", 5)
    assert host.operator.get("/usage").json()["cold_models"] == []
    ask("cold", 1)
    report = host.operator.get("/usage").json()
    assert report["cold_models"] == ["cold"]
    rates = {row["model"]: row["cache_hit_rate"] for row in report["sums"]}
    assert rates["cold"] == 0
    assert 0.5 < rates["third"] < 1
    metrics = host.operator.get("/metrics").text
    assert 'mesh_model_cache_cold{model="cold"} 1' in metrics
    assert 'mesh_model_cache_cold{model="third"} 0' in metrics
    first.script.replace([Say("ok", usage={"prompt_tokens_details": {"cached_tokens": 3000}})])
    ask("cold", 1)
    assert host.operator.get("/usage").json()["cold_models"] == []
