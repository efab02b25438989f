"""A turn that another model answers in part: that is recorded, paid at its price, and it sees nothing foreign."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent_testing import Call, Fail, Raw, Say, ScriptedProvider, StrictProvider
from tests.integration.host.live import Host

from ..live import Runtime, fresh

CATALOG = """
providers:
  first: {{base_url: "{first}"}}
  second: {{base_url: "{second}"}}
  google: {{base_url: "{google}"}}
models:
  default: {{provider: first, model: big-1, fallbacks: [second], pricing: {{input: 1, output: 1}}}}
  second:
    {{provider: second, model: big-2, caching: automatic, pricing: {{input: 1000, output: 1000, cache_read: 0}},
     profile: {{output_limit: max_completion_tokens}}}}
  gemini: {{provider: google, model: gemini-3-pro, fallbacks: [second]}}
  before-gemini: {{provider: first, model: big-1, fallbacks: [gemini]}}
"""
USED = {"prompt_tokens": 5000, "completion_tokens": 10, "total_tokens": 5010}


@pytest.fixture(scope="module")
def models() -> Iterator[tuple[ScriptedProvider, ScriptedProvider]]:
    with ScriptedProvider([]) as first, ScriptedProvider([]) as second:
        yield first, second


@pytest.fixture(scope="module")
def google() -> Iterator[StrictProvider]:
    with StrictProvider("gemini", []) as google:
        yield google


@pytest.fixture(scope="module")
def agent(models: Any, google: StrictProvider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runtime]:
    folder: Path = tmp_path_factory.mktemp("fallbacks")
    first, second = models
    (folder / "models.yaml").write_text(CATALOG.format(first=first.url, second=second.url, google=google.url))
    with Host(folder / "host", MESH_MODELS=folder / "models.yaml") as host:
        access = {"AGENT_LLM_BASE_URL": f"{host.url}/v1", "AGENT_MESH_TOKEN": host.token("writer")}
        with Runtime(first, folder / "agent", AGENT_CONFINEMENT="off", **access) as agent:
            yield agent


def signed_call() -> Raw:
    call = {"index": 0, "id": "call_1", "function": {"name": "glob", "arguments": '{"pattern": "*"}'}}
    delta = {"reasoning_content": "hm", "tool_calls": [{**call, "extra_content": {"signature": "c2ln"}}]}
    events = [{"choices": [{"index": 0, "delta": delta}]}, {"choices": [{"index": 0, "finish_reason": "tool_calls"}]}]
    return Raw((*(f"data: {json.dumps(event)}\n\n" for event in events), f"data: {json.dumps({'usage': USED})}\n\n"))


def test_a_turn_says_who_answered_and_why(agent: Runtime, models: Any) -> None:
    first, second = models
    agent.start()  # rates are those of one process
    first.script.replace([signed_call(), Fail(503, "on fire"), Say("I am back.", usage=USED)])
    second.script.replace([Say("I stand in.", usage={**USED, "prompt_tokens_details": {"cached_tokens": 4000}})])
    session = fresh("s")
    reply = agent.chat("go", session_id=session)
    assert (reply.status_code, reply.json()["response"]) == (200, "I stand in."), reply.text
    assert reply.json()["usage"]["cost_usd"] == pytest.approx((5010 * 1 + 1010 * 1000) / 1e6)
    shown = agent.status()
    assert shown["fallback"]["model"] == "second"
    assert "on fire" in shown["fallback"]["reason"]
    assert shown["cache_hit_rates"] == {"default": 0.0, "second": 0.8}
    sent = second.completions[-1]
    assert b"c2ln" not in sent.body
    assert b"reasoning_content" not in sent.body, "no other provider sees what the first gave"
    assert sent.messages[-1]["tool_call_id"] == "call_1"
    agent.start()
    metadata = agent.get(f"/sessions/{session}/messages").json()["messages"][-1]["metadata"]
    (other,) = metadata["fallbacks"]
    assert (other["model"], other["calls"], other["usage"]["cache_read"]) == ("second", 1, 4000)
    assert "on fire" in other["reason"]
    assert agent.get(f"/sessions/{session}").json()["cost_usd"] == pytest.approx(reply.json()["usage"]["cost_usd"])
    assert agent.chat("go", session_id=session).json()["response"] == "I am back."
    assert agent.status()["fallback"] is None
    assert b"c2ln" in first.completions[-1].body


def test_gemini_goes_on_where_another_model_has_called(agent: Runtime, models: Any, google: StrictProvider) -> None:
    first, second = models
    call = Call("glob", {"pattern": "*"})
    second.script.replace([call])
    google.script.replace([Fail(503), Say("I am back.")])
    assert agent.chat("go", session_id=fresh("s"), model="gemini").json()["response"] == "I am back."
    first.script.replace([call, Fail(503)])
    google.script.replace([Say("I stand in.")])
    assert agent.chat("go", session_id=fresh("s"), model="before-gemini").json()["response"] == "I stand in."
    assert google.refusals == ()


def test_a_budget_is_spent_at_the_price_of_the_model_that_answered(agent: Runtime, models: Any) -> None:
    first, second = models
    first.script.replace([Fail(503)])
    second.script.replace([Call("glob", {"pattern": "*"})], otherwise=Say("done", usage=USED))
    result = agent.run(token_budget={"max_cost_usd": 0.01})
    assert (result["status"], result["error_code"]) == ("failed", "budget_exhausted"), result
