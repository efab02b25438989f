"""A host that has nothing but a key for Claude, and an agent's calls through it."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from agent_testing import Call, Drop, Fail, FakeAnthropic, Raw, Say

from .live import Host, said

CHAT = "/v1/chat/completions"
GZIP = {"content-encoding": "gzip"}
TOOLS = [{"type": "function", "function": {"name": "read", "parameters": {"type": "object"}}}]


@pytest.fixture(scope="module")
def api() -> Iterator[FakeAnthropic]:
    with FakeAnthropic([], api_key="sk-ant") as api:
        yield api


@pytest.fixture(scope="module")
def host(api: FakeAnthropic, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    folder: Path = tmp_path_factory.mktemp("claude")
    with Host(folder, ANTHROPIC_API_KEY="sk-ant", ANTHROPIC_BASE_URL=api.url) as host:
        yield host


@pytest.fixture(scope="module")
def agent(host: Host) -> Iterator[httpx.Client]:
    with host.client(host.token("writer")) as client:
        yield client


def test_a_key_alone_gives_a_model_with_a_price(host: Host, agent: httpx.Client, api: FakeAnthropic) -> None:
    assert "default is claude-sonnet-5-5 at" in host.process.output()
    (card,) = agent.get("/v1/models").json()["data"]
    assert (card["id"], card["upstream"], card["context_limit"]) == ("default", "claude-sonnet-5-5", 1_000_000)
    api.script.append(Say("Hello there.", reasoning="Greet."))
    system = {"role": "system", "content": "rules " * 2000}
    question = said("hi", stream=True)
    reply = agent.post(CHAT, json={**question, "messages": [system, *question["messages"]]})
    assert reply.status_code == 200
    lines = [line.strip() for line in reply.text.split("\n\n")]
    *events, done = [line.removeprefix("data: ") for line in lines if line.startswith("data:")]
    assert done == "[DONE]"
    chunks = [json.loads(event) for event in events]
    deltas = [choice["delta"] for chunk in chunks for choice in chunk["choices"]]
    assert "".join(delta.get("content", "") for delta in deltas) == "Hello there."
    assert "".join(delta.get("reasoning", "") for delta in deltas) == "Greet."
    assert not any(chunk.get("usage") for chunk in chunks), "it was not asked for"
    row = host.recent(limit=1)[0]
    assert (row["provider"], row["upstream_model"], row["status"]) == ("anthropic", "claude-sonnet-5-5", "complete")
    usage: dict[str, Any] = row["usage"]
    assert (usage["output"], usage["reasoning"], usage["cache_read"], row["estimated"]) == (2, 1, 0, False)
    assert usage["cache_write"] > 3000
    cost = (usage["input"] * 2 + 3 * 10 + usage["cache_write"] * 2.5) / 1_000_000
    assert usage["cost_usd"] == pytest.approx(cost)


def test_a_turn_with_a_tool_goes_back_with_its_signature(agent: httpx.Client, api: FakeAnthropic) -> None:
    api.script.append(Say(reasoning="Look.", calls=(Call("read", {"path": "a"}),)), Say("done"))
    question = said("hi", tools=TOOLS)
    message = agent.post(CHAT, json=question).json()["choices"][0]["message"]
    assert message["reasoning_details"][0]["signature"]
    result = {"role": "tool", "tool_call_id": message["tool_calls"][0]["id"], "content": "x"}
    again = {**question, "messages": [*question["messages"], message, result]}
    assert agent.post(CHAT, json=again).json()["choices"][0]["message"]["content"] == "done"
    del again["messages"][1]["reasoning_details"]
    refused = agent.post(CHAT, json=again)
    assert refused.status_code == 400
    assert "Expected `thinking`" in refused.json()["error"]["message"]


def test_a_stream_that_breaks_off_is_paid_as_far_as_it_came(
    host: Host, agent: httpx.Client, api: FakeAnthropic
) -> None:
    api.script.append(Drop(after=4))
    reply = agent.post(CHAT, json=said("hi", stream=True))
    last = [line for line in reply.text.split("\n\n") if line][-1]
    assert json.loads(last.strip().removeprefix("data: "))["error"]["code"] == "provider_dropped"
    row = host.recent(limit=1)[0]
    assert (row["status"], row["estimated"]) == ("dropped", False)
    assert row["usage"]["input"] > 0


def test_errors_pass_with_their_wait(agent: httpx.Client, api: FakeAnthropic) -> None:
    api.script.append(Fail(429, retry_after=7), Fail(401))
    limited = agent.post(CHAT, json=said("hi"))
    assert (limited.status_code, limited.headers["retry-after"]) == (429, "7")
    assert limited.json()["error"]["code"] == "rate_limit_exceeded"
    refused = agent.post(CHAT, json=said("hi"))
    assert (refused.status_code, refused.json()["error"]["code"]) == (502, "provider_auth")
    assert "ANTHROPIC_API_KEY" in refused.json()["error"]["message"]


def events(*described: dict[str, Any]) -> str:
    return "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in described)


BEGUN = (
    {"type": "message_start", "message": {"id": "msg_1", "model": "claude-sonnet-5-5"}},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hello."}},
)
ENDED = (
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 1}},
    {"type": "message_stop"},
)


def zipped(text: str) -> tuple[str, ...]:
    return (gzip.compress(text.encode()).decode("latin-1"),)


def test_compressed_answers_are_read(agent: httpx.Client, api: FakeAnthropic) -> None:
    stream = Raw(
        zipped(events(*BEGUN, *ENDED)), headers={"content-type": "text/event-stream", **GZIP}, encoding="latin-1"
    )
    error = json.dumps({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}})
    refusal = Raw(zipped(error), 529, {"content-type": "application/json", **GZIP}, encoding="latin-1")
    api.script.append(stream, refusal)
    assert "Hello." in agent.post(CHAT, json=said("hi", stream=True)).text
    refused = agent.post(CHAT, json=said("hi", stream=True))
    assert (refused.status_code, refused.json()["error"]["code"]) == (529, "overloaded_error")


def test_a_stream_that_breaks_off_before_its_usage_is_reported(
    host: Host, agent: httpx.Client, api: FakeAnthropic
) -> None:
    api.script.append(Raw((events(*BEGUN),)))
    assert "provider_dropped" in agent.post(CHAT, json=said("hi", stream=True)).text
    assert host.recent(limit=1)[0]["status"] == "dropped"


PING = "event: ping\ndata: {}\n\n"
EVENTS = {"content-type": "text/event-stream"}
CALLED = {"type": "content_block_start", "index": 0, "content_block": {"type": "tool_use", "id": "c", "name": "read"}}
FINISHED: list[tuple[Raw, str]] = [
    (Raw((events(*BEGUN, ENDED[0]),), headers={**EVENTS, "content-length": "9999"}), "stop"),
    (Raw((events(*BEGUN, ENDED[0]),), heartbeat=PING, heartbeat_seconds=0.2), "stop"),
    (Raw((events(*BEGUN, *ENDED), "data: [DONE]\n\n")), "stop"),
    (
        Raw((events(*BEGUN, ENDED[0], {"type": "message_delta", "usage": {"output_tokens": 3}}), "data: [DONE]\n\n")),
        "stop",
    ),
    (Raw((events(*BEGUN), "data: [DONE]\n\n")), "stop"),
    (Raw((events(BEGUN[0], CALLED), "data: [DONE]\n\n")), "tool_calls"),
]


@pytest.mark.parametrize(("answer", "reason"), FINISHED, ids=range(len(FINISHED)))
def test_an_answer_that_has_ended_is_one_whatever_comes_then(
    host: Host, agent: httpx.Client, api: FakeAnthropic, answer: Raw, reason: str
) -> None:
    api.script.append(answer)
    text = agent.post(CHAT, json=said("hi", stream=True)).text
    assert f'"finish_reason":"{reason}"' in text
    assert '"error"' not in text
    assert text.count("[DONE]") <= 1
    assert host.recent(limit=1)[0]["status"] == "complete"


def test_addresses_and_hosted_tools_stay_closed(agent: httpx.Client) -> None:
    hosted = agent.post(CHAT, json=said("hi", tools=[{"type": "web_search_20250305", "name": "web_search"}]))
    assert hosted.json()["error"]["code"] == "field_not_allowed"
    part = {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}
    fetched = agent.post(CHAT, json={"model": "default", "messages": [{"role": "user", "content": [part]}]})
    assert fetched.json()["error"]["code"] == "address_not_allowed"
