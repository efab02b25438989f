"""The demo model over its wire: genuine OpenAI chunks, usage by one rule, embeddings."""

from __future__ import annotations

import base64
import json
import struct
from typing import Any

import pytest
from pydantic_core import to_json

from agent_host.errors import ProviderFailed
from agent_host.proxy.providers import ProviderCall
from agent_host.proxy.providers.demo import DemoProvider
from agent_testing import ManualClock

TOOLS = [{"type": "function", "function": {"name": "bash", "parameters": {}}}]


async def call(payload: dict[str, Any], *, streamed: bool = False, operation: Any = "chat") -> bytes:
    provider = DemoProvider(ManualClock(now_ms=1_700_000_000_000))
    async with provider.call(ProviderCall(operation, to_json({"model": "demo", **payload}), streamed)) as answer:
        assert answer.status == 200
        body = b"".join([data async for data in answer.body])
    await provider.close()
    return body


def said(text: str, **more: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text}], **more}


def events(stream: bytes) -> list[dict[str, Any]]:
    *lines, done, end = stream.decode().split("\n\n")
    assert (done, end) == ("data: [DONE]", "")
    return [json.loads(line.removeprefix("data: ")) for line in lines]


async def test_words_come_one_by_one() -> None:
    payload = said("hello", stream_options={"include_usage": True})
    chunks = events(await call(payload, streamed=True))
    *pieces, finish, usage = chunks
    assert pieces[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    words = [chunk["choices"][0]["delta"]["content"] for chunk in pieces[1:]]
    assert len(words) > 10
    assert "".join(words).startswith("[demo model] I am")
    assert finish["choices"][0] == {"index": 0, "delta": {}, "logprobs": None, "finish_reason": "stop"}
    assert usage["choices"] == []
    assert usage["usage"]["completion_tokens"] == len(words)
    assert {chunk["id"] for chunk in chunks} == {chunks[0]["id"]}
    assert chunks[0]["created"] == 1_700_000_000


async def test_a_call_comes_in_pieces_and_whole_alike() -> None:
    payload = said("run: echo a fairly long command line here", tools=TOOLS)
    chunks = events(await call(payload, streamed=True))
    deltas = [delta for chunk in chunks for delta in chunk["choices"][0]["delta"].get("tool_calls", [])]
    assert len(deltas) > 2
    assert all(delta["index"] == 0 for delta in deltas)
    arguments = "".join(delta["function"]["arguments"] for delta in deltas)
    assert chunks[-1]["choices"][0]["finish_reason"] == "tool_calls"
    whole = json.loads(await call(payload))
    (made,) = whole["choices"][0]["message"]["tool_calls"]
    assert made == {"id": deltas[0]["id"], "type": "function", "function": {"name": "bash", "arguments": arguments}}
    assert json.loads(arguments)["command"] == "echo a fairly long command line here"
    assert whole["choices"][0]["message"]["content"].startswith("[demo model]")


async def test_ids_differ_from_step_to_step() -> None:
    first = json.loads(await call(said("run: ls", tools=TOOLS)))
    later: dict[str, Any] = said("x", tools=TOOLS)
    later["messages"] += [{"role": "assistant", "content": "ok"}, {"role": "user", "content": "run: ls"}]
    second = json.loads(await call(later))
    ids = [reply["choices"][0]["message"]["tool_calls"][0]["id"] for reply in (first, second)]
    assert ids[0] != ids[1]


async def test_usage_follows_its_rule() -> None:
    short, long = [json.loads(await call(said(text)))["usage"] for text in ("x", "x" + "y" * 400)]
    assert long["prompt_tokens"] - short["prompt_tokens"] == 100
    assert short["total_tokens"] == short["prompt_tokens"] + short["completion_tokens"]


@pytest.mark.parametrize("name", ["max_tokens", "max_completion_tokens"])
async def test_a_token_limit_is_kept(name: str) -> None:
    reply = json.loads(await call(said("hello", **{name: 3})))
    assert reply["choices"][0]["message"]["content"] == "[demo model] I "
    assert reply["choices"][0]["finish_reason"] == "length"
    assert reply["usage"]["completion_tokens"] == 3
    cut = json.loads(await call(said("run: ls", tools=TOOLS, **{name: 2})))
    assert "tool_calls" not in cut["choices"][0]["message"]


async def embedded(payload: dict[str, Any]) -> Any:
    reply = json.loads(await call(payload, operation="embeddings"))
    return [entry["embedding"] for entry in reply["data"]]


def closeness(left: list[float], right: list[float]) -> float:
    return sum(a * b for a, b in zip(left, right, strict=True))


async def test_embeddings_of_texts_that_share_words_lie_close() -> None:
    one, two, three = await embedded({"input": ["the red house", "a red house", "quite different words"]})
    assert len(one) == 256
    assert closeness(one, one) == pytest.approx(1)
    assert closeness(one, two) > closeness(one, three)


async def test_embeddings_take_openais_options() -> None:
    (floats,) = await embedded({"input": "hello world", "dimensions": 8})
    (packed,) = await embedded({"input": "hello world", "dimensions": 8, "encoding_format": "base64"})
    assert list(struct.unpack("<8f", base64.b64decode(packed))) == pytest.approx(floats)
    (nothing,) = await embedded({"input": "?!"})
    assert closeness(nothing, nothing) == pytest.approx(1)


@pytest.mark.parametrize("odd", [{"input": ["x"], "dimensions": 10**12}, {"input": ["x"] * 2049}])
async def test_embeddings_have_bounds(odd: dict[str, Any]) -> None:
    with pytest.raises(ProviderFailed, match="at most 2048 texts in 4096 dimensions"):
        async with DemoProvider(ManualClock()).call(ProviderCall("embeddings", to_json({"model": "demo", **odd}))):
            pass
