"""Claude through the provider `anthropic`, against a strict double of Anthropic's API."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any

import httpx2
import pytest
from pydantic_core import to_json

from agent_common.completions import from_response
from agent_host.errors import ProviderFailed
from agent_host.proxy.catalog.catalog import ProviderSpec
from agent_host.proxy.providers import Provider, ProviderCall
from agent_host.proxy.providers.anthropic import AnthropicProvider
from agent_host.proxy.providers.http import key_refused, transport_failed
from agent_testing import Blocks, Call, Drop, Fail, FakeAnthropic, Garbage, Raw, Say

NEW, FIVE, OLD = "claude-sonnet-5-5", "claude-sonnet-5", "claude-sonnet-4-5"
TOOLS = [
    {
        "type": "function",
        "function": {"name": name, "description": f"the tool {name}", "parameters": {"type": "object"}},
    }
    for name in ("read", "list")
]
SUMMARIZED = {"type": "adaptive", "display": "summarized"}
USER = {"role": "user", "content": "What do the notes say?"}
Message = dict[str, Any]
BROTLI = {"content-type": "text/event-stream", "content-encoding": "br"}


@pytest.fixture
def api() -> Iterator[FakeAnthropic]:
    with FakeAnthropic([], api_key="sk-ant") as api:
        yield api


@pytest.fixture
async def provider(api: FakeAnthropic) -> AsyncIterator[AnthropicProvider]:
    spec = ProviderSpec("anthropic", "anthropic", api.url, "sk-ant", set_by="ANTHROPIC_API_KEY")
    provider = AnthropicProvider(spec, 10, 60)
    yield provider
    await provider.close()


async def ask(provider: AnthropicProvider, *messages: Message, **fields: Any) -> tuple[int, Message, Message]:
    """Return the status, the message put together, and the whole answer or the last chunk with usage."""
    options = {name: fields.pop(name) for name in ("max_output", "effort", "cached") if name in fields}
    payload = {"model": NEW, "messages": list(messages), **fields}
    call = ProviderCall("chat", to_json(payload), bool(payload.get("stream")), model=str(payload["model"]), **options)
    async with provider.call(call) as answer:
        body = b"".join([piece async for piece in answer.body])
        if answer.status == 200 and call.streamed:
            return 200, *put_together(body)
        reply = json.loads(body)
        return answer.status, reply.get("choices", [{"message": {}}])[0]["message"], reply


def put_together(body: bytes) -> tuple[Message, Message]:
    """Put a stream together as an agent does: texts joined, details and calls by their index. Comments say nothing."""
    *events, done = [line.removeprefix(b"data: ") for line in body.split(b"\n\n") if line and line[:1] != b":"]
    assert done == b"[DONE]"
    text, calls, details, last = "", dict[int, Message](), dict[int, Message](), dict[str, Any]()
    for event in map(json.loads, events):
        last |= {"usage": event["usage"]} if event.get("usage") else {}
        for choice in event["choices"]:
            last |= choice if choice["finish_reason"] else {}
            text += choice["delta"].get("content") or ""
            for piece in choice["delta"].get("tool_calls", []):
                call = calls.setdefault(piece["index"], {**piece, "function": {"name": "", "arguments": ""}})
                call["function"] = {
                    "name": call["function"]["name"] + piece["function"].get("name", ""),
                    "arguments": call["function"]["arguments"] + piece["function"].get("arguments", ""),
                }
            for piece in choice["delta"].get("reasoning_details", []):
                old = details.setdefault(piece["index"], {})
                joined = old.get("text", "") + piece.get("text", "")
                details[piece["index"]] = {**old, **piece, **({"text": joined} if joined else {})}
    message: Message = {"role": "assistant", "content": text or None}
    message |= {"tool_calls": [calls[at] for at in sorted(calls)]} if calls else {}
    return message | ({"reasoning_details": list(details.values())} if details else {}), last


def sse(*events: Message) -> tuple[str, ...]:
    """Return the events as the pieces of a stream."""
    return tuple(f"event: {one['type']}\ndata: {json.dumps(one)}\n\n" for one in events)


TEXT = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hello."}}
STOPPED = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 2}}
ANSWERED = sse(TEXT, STOPPED, {"type": "message_stop"})


def results(message: Message) -> list[Message]:
    return [{"role": "tool", "tool_call_id": call["id"], "content": "hello"} for call in message["tool_calls"]]


SHAPES: list[Say] = [
    Say("Let me see.", reasoning="I must look.", calls=(Call("read", {"path": "a"}), Call("list", {}))),
    Say(calls=(Call("read", {}),)),
    Blocks(content=({"type": "redacted_thinking"}, {"type": "tool_use", "name": "read", "input": {"path": "é"}})),
    Blocks(
        content=(
            {"type": "thinking", "thinking": "First."},
            {"type": "text", "text": "Now. "},
            {"type": "thinking", "thinking": "Second."},
            {"type": "text", "text": "Then."},
            {"type": "redacted_thinking"},
            {"type": "tool_use", "name": "read", "input": {}},
            {"type": "thinking", "thinking": "Third."},
            {"type": "tool_use", "name": "list", "input": {"path": "b"}},
        )
    ),
]


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("shape", SHAPES, ids=range(len(SHAPES)))
async def test_an_answer_goes_back_as_it_came(
    api: FakeAnthropic, provider: AnthropicProvider, shape: Say, stream: bool
) -> None:
    api.script.append(shape, Say("The notes say hello.", reasoning="Done."))
    status, message, answer = await ask(provider, USER, tools=TOOLS, stream=stream)
    assert status == 200
    assert (answer.get("finish_reason") or answer["choices"][0]["finish_reason"]) == "tool_calls"
    status, final, _ = await ask(provider, USER, message, *results(message), tools=TOOLS, stream=stream)
    assert (status, final["content"]) == (200, "The notes say hello.")
    sent = api.completions[1].json["messages"][1]["content"]
    kinds = [block["type"] for block in sent]
    if isinstance(shape, Blocks):
        assert kinds == [block["type"] for block in shape.content]
        told = {"thinking": "thinking", "text": "text", "tool_use": "input"}
        for block, given in zip(sent, shape.content, strict=True):
            member = told.get(block["type"])
            assert member is None or block[member] == given[member]


@pytest.mark.parametrize("text", ["Let me", ""])
async def test_thinking_at_the_end_of_an_answer_does_not_go_back(
    api: FakeAnthropic, provider: AnthropicProvider, text: str
) -> None:
    """It stands there when the answer was cut off or refused."""
    said = ({"type": "text", "text": text},) if text else ()
    thinking = ({"type": "thinking", "thinking": "Hm."}, {"type": "redacted_thinking"})
    api.script.append(Blocks(content=(*said, *thinking), finish_reason="length"), Say("ok"))
    _, message, _ = await ask(provider, USER)
    assert len(message["reasoning_details"]) == 2
    status, _, reply = await ask(provider, USER, message, USER)
    assert status == 200, reply
    first, *others = api.completions[1].json["messages"]
    assert first["role"] == "user"
    kept = [{"role": "assistant", "content": list(said)}] if text else []
    assert [other for other in others if other["role"] == "assistant"] == kept


async def test_the_request_is_what_claude_takes(api: FakeAnthropic, provider: AnthropicProvider) -> None:
    api.script.append(Say("ok"))
    pixel = "data:image/png;base64,aGk="
    parts = [{"type": "text", "text": "Look"}, {"type": "image_url", "image_url": {"url": pixel}}]
    await ask(
        provider,
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": parts},
        {"role": "assistant", "content": " \n"},
        {"role": "system", "content": "A note."},
        model=FIVE,
        tools=TOOLS,
        tool_choice={"type": "function", "function": {"name": "read"}},
        parallel_tool_calls=False,
        temperature=0.3,
        top_p=0.9,
        max_tokens=50_000,
        max_output=40_000,
        stop=["END", " "],
        user="ann",
        seed=1,
        prompt_cache_key="key",
        response_format={"type": "json_schema", "json_schema": {"name": "a", "schema": {"type": "object"}}},
    )
    (asked,) = api.completions
    assert asked.headers["authorization"] == "Bearer sk-ant"
    assert asked.headers["anthropic-version"]
    assert asked.headers["user-agent"].startswith("AsyncAnthropic/")
    assert "gzip" in asked.headers["accept-encoding"]
    assert not any(name.startswith("x-stainless") for name in asked.headers), "they tell what the host runs on"
    assert asked.json == {
        "model": FIVE,
        "max_tokens": 40_000,
        "tools": [
            {"name": name, "description": f"the tool {name}", "input_schema": {"type": "object"}}
            for name in ("read", "list")
        ],
        "tool_choice": {"type": "tool", "name": "read", "disable_parallel_tool_use": True},
        "system": [{"type": "text", "text": "Be kind."}],
        "messages": [
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "Look"},
                    {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}},
                    {"type": "text", "text": "A note."},
                ],
            }
        ],
        "output_config": {
            "format": {"type": "json_schema", "schema": {"type": "object", "additionalProperties": False}}
        },
        "stop_sequences": ["END"],
        "metadata": {"user_id": "ann"},
    }


@pytest.mark.parametrize(
    ("choice", "words"),
    [
        ("required", "Answer this by calling one of the tools."),
        ({"type": "function", "function": {"name": "list"}}, "Answer this by calling the tool list."),
        ("auto", None),
    ],
)
async def test_a_claude_that_cannot_be_forced_is_told_to_call(
    api: FakeAnthropic, provider: AnthropicProvider, choice: Any, words: str | None
) -> None:
    api.script.append(Call("read", {}), Say("ok"))
    fields = {"tools": TOOLS, "parallel_tool_calls": False, "cached": True}
    _, message, _ = await ask(provider, USER, **fields)
    status, _, reply = await ask(provider, USER, message, *results(message), tool_choice=choice, **fields)
    assert status == 200, reply
    before, sent = (asked.json for asked in api.completions)
    assert sent["tool_choice"] == {"type": "auto", "disable_parallel_tool_use": True}
    assert sent["tools"] == before["tools"], "which its thinking is bound to"
    result, *told = sent["messages"][-1]["content"]
    assert result.pop("cache_control")
    assert told == ([{"type": "text", "text": words}] if words else [])


SCHEMAS: list[tuple[Message, Message]] = [
    (
        {"type": "object", "properties": {"n": {"type": "integer", "minimum": 1}}, "required": ["n"]},
        {
            "type": "object",
            "required": ["n"],
            "additionalProperties": False,
            "properties": {"n": {"type": "integer", "description": '{"minimum":1}'}},
        },
    ),
    (
        {"properties": {"minimum": {"type": "string", "maxLength": 9, "description": "The least."}}},
        {
            "type": "object",
            "additionalProperties": False,
            "properties": {"minimum": {"type": "string", "description": 'The least.\n\n{"maxLength":9}'}},
        },
    ),
    (
        {"$defs": {"A": {"type": ["object", "null"], "$comment": "x"}}, "oneOf": [{"$ref": "#/$defs/A", "title": "A"}]},
        {
            "$defs": {"A": {"type": ["object", "null"], "additionalProperties": False}},
            "anyOf": [{"$ref": "#/$defs/A"}],
        },
    ),
    (
        {"type": "array", "minItems": 1, "items": {"type": ["string", "null"], "enum": ["a", None]}},
        {"type": "array", "minItems": 1, "items": {"enum": ["a", None]}},
    ),
    (
        {"type": "object", "additionalProperties": {"type": "string"}, "format": ["odd"]},
        {"type": "object", "additionalProperties": False, "description": '{"format":["odd"]}'},
    ),
    ({"items": True, "minItems": 2}, {"description": '{"items":true,"minItems":2}'}),
]


@pytest.mark.parametrize(("schema", "expected"), SCHEMAS)
async def test_the_schema_of_an_answer_is_closed(
    api: FakeAnthropic, provider: AnthropicProvider, schema: Message, expected: Message
) -> None:
    api.script.append(Say("{}"))
    form = {"type": "json_schema", "json_schema": {"name": "a", "schema": schema}}
    status, _, reply = await ask(provider, USER, response_format=form)
    assert status == 200, reply
    assert api.completions[0].json["output_config"]["format"]["schema"] == expected


async def test_arguments_with_names_that_claude_refuses_are_described(
    api: FakeAnthropic, provider: AnthropicProvider
) -> None:
    api.script.append(Say("ok"))
    long, number, text = "x" * 65, {"type": "integer"}, {"type": "string"}
    schema = {"type": "object", "properties": {"$top": number, "a.b": text, long: text}, "required": ["$top", "a.b"]}
    tool = {"type": "function", "function": {"name": "query", "description": "Ask.", "parameters": schema}}
    status, _, reply = await ask(provider, USER, tools=[tool])
    assert status == 200, reply
    (sent,) = api.completions[0].json["tools"]
    assert sent["input_schema"] == {"type": "object", "properties": {"a.b": text}, "required": ["a.b"]}
    first, further = sent["description"].split("\n\nFurther arguments: ")
    assert (first, json.loads(further)) == ("Ask.", {"$top": number, long: text})


async def test_what_other_models_left_in_the_history_is_mended(api: FakeAnthropic, provider: AnthropicProvider) -> None:
    def call(name: str, arguments: str, call_id: str = "call:0") -> Message:
        return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}

    api.script.append(Say("ok"))
    foreign = [{"type": "reasoning.text", "text": "hm", "signature": "x", "format": "google-gemini-v1", "index": 0}]
    status, _, reply = await ask(
        provider,
        {"role": "assistant", "content": "Hello."},
        USER,
        {"role": "assistant", "content": None, "tool_calls": [call("a.b", "broken")], "reasoning_details": foreign},
        {"role": "tool", "tool_call_id": "call:0", "content": ""},
        {"role": "assistant", "content": "again", "tool_calls": [call("read", "{}"), call("list", "", "lost")]},
        {"role": "tool", "tool_call_id": "call:0", "content": "late"},
        {"role": "user", "content": "go on"},
        {"role": "tool", "tool_call_id": "never called", "content": "a stray result"},
    )
    assert status == 200, reply
    sent = api.completions[0].json
    assert [message["role"] for message in sent["messages"]] == ["user", "assistant"] * 3 + ["user"]
    first, second = (sent["messages"][at]["content"] for at in (3, 5))
    assert first[0]["name"] == "a_b"
    assert first[0]["input"] == {"invalid_arguments": "broken"}
    assert second[1]["id"] == first[0]["id"] + "_1"
    assert [block["type"] for block in sent["messages"][6]["content"]] == ["tool_result", "tool_result", "text", "text"]
    assert sent["messages"][6]["content"][1]["is_error"] is True
    assert [tool["name"] for tool in sent["tools"]] == ["a_b", "read", "list"]
    assert sent["tool_choice"] == {"type": "none"}


@pytest.mark.parametrize(
    ("model", "fields", "thinking", "config"),
    [
        (NEW, {}, SUMMARIZED, None),
        (NEW, {"reasoning_effort": "high"}, SUMMARIZED, {"effort": "high"}),
        (NEW, {"effort": "max"}, SUMMARIZED, {"effort": "max"}),
        (NEW, {"reasoning_effort": "none"}, None, {"effort": "low"}),
        (NEW, {"tools": TOOLS, "tool_choice": "required", "effort": "high"}, SUMMARIZED, {"effort": "high"}),
        (FIVE, {"tools": TOOLS, "tool_choice": "required", "effort": "high"}, None, None),
        (FIVE, {"thinking": {"type": "disabled"}}, {"type": "disabled"}, None),
        ("claude-opus-4-6", {}, None, None),
        ("claude-opus-4-6", {"reasoning": {"effort": "low"}}, SUMMARIZED, {"effort": "low"}),
        (OLD, {}, None, None),
        ("claude-3-7-sonnet-20250219", {}, None, None),
        (OLD, {"reasoning_effort": "medium", "max_tokens": 8000}, {"type": "enabled", "budget_tokens": 4000}, None),
        (OLD, {"reasoning": {"max_tokens": 2000}}, {"type": "enabled", "budget_tokens": 2000}, None),
        (OLD, {"reasoning_effort": "high", "max_tokens": 500}, None, None),
    ],
)  # fmt: skip
async def test_thinking_is_asked_for_as_the_model_takes_it(
    api: FakeAnthropic, provider: AnthropicProvider, model: str, fields: Message, thinking: Message, config: Message
) -> None:
    api.script.append(Say("ok"))
    status, _, reply = await ask(provider, USER, **{"model": model, **fields})
    assert status == 200, reply
    sent = api.completions[0].json
    assert (sent.get("thinking"), sent.get("output_config")) == (thinking, config)


BOUND = "messages.1.content.0: Invalid `signature` in `thinking` block. The block is bound to a different conversation."


async def test_thinking_behind_what_has_changed_is_passed_over(api: FakeAnthropic, provider: AnthropicProvider) -> None:
    api.script.append(Fail(400, BOUND), *[Say("ok")] * 3, Fail(400, BOUND))
    fields: list[Message] = [{}, {"reasoning_effort": "none"}, {"model": FIVE}]
    for more in fields:
        status, _, reply = await ask(provider, USER, **more)
        assert status == 200, reply
    drops = {"block_binding": {"prefix_mismatch_behavior": "drop_block"}}
    asked = [request.json.get("thinking") for request in api.completions]
    assert asked == [SUMMARIZED, {**SUMMARIZED, **drops}, {"type": "adaptive", **drops}, SUMMARIZED]
    status, _, reply = await ask(provider, USER)
    assert (status, "bound to a different" in reply["error"]["message"], len(api.completions)) == (400, True, 5)


async def test_calls_of_another_model_turn_a_budget_for_thinking_off(
    api: FakeAnthropic, provider: AnthropicProvider
) -> None:
    api.script.append(Say("ok"))
    function = {"name": "read", "arguments": "{}"}
    other = {"role": "assistant", "tool_calls": [{"id": "a", "type": "function", "function": function}]}
    fields = {"model": OLD, "reasoning_effort": "high", "tools": TOOLS}
    status, _, reply = await ask(provider, USER, other, *results(other), **fields)
    assert status == 200, reply
    assert "thinking" not in api.completions[0].json


@pytest.mark.parametrize("stream", [True, False])
async def test_the_prompt_is_cached_and_all_five_buckets_are_reported(
    api: FakeAnthropic, provider: AnthropicProvider, stream: bool
) -> None:
    call = Say(reasoning="I must look.", calls=tuple(Call("read", {"n": n}) for n in range(12)))
    api.script.append(call, Say("ok", reasoning="Well then."))
    system = {"role": "system", "content": "rules " * 2000}
    _, message, first = await ask(provider, system, USER, tools=TOOLS, stream=stream, cached=True)
    _, _, second = await ask(
        provider, system, USER, message, *results(message), tools=TOOLS, stream=stream, cached=True
    )
    written = first["usage"]["prompt_tokens_details"]
    assert written["cached_tokens"] == 0
    assert written["cache_write_tokens"] > 3000
    usage = second["usage"]
    assert usage["prompt_tokens_details"]["cached_tokens"] == written["cache_write_tokens"], "24 blocks further on"
    assert usage["completion_tokens_details"]["reasoning_tokens"] == 2
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]
    marks = [str(request.json).count("cache_control") for request in api.completions]
    assert marks == [2, 3]


@pytest.mark.parametrize(
    ("stop", "finish"),
    [("length", "length"), ("content_filter", "content_filter"), ("model_context_window_exceeded",) * 2],
)
async def test_stop_reasons(api: FakeAnthropic, provider: AnthropicProvider, stop: str, finish: str) -> None:
    api.script.append(Say("cut", finish_reason=stop), Say("cut", finish_reason=stop))
    assert (await ask(provider, USER, stream=True))[2]["finish_reason"] == finish
    assert (await ask(provider, USER))[2]["choices"][0]["finish_reason"] == finish


@pytest.mark.parametrize(
    ("step", "code"),
    [
        (Fail(400, "prompt is too long: 214315 tokens > 200000 maximum"), "context_length_exceeded"),
        (Fail(413), "context_length_exceeded"),
        (Fail(402), "insufficient_quota"),
        (Fail(400, "You have reached your specified API usage limits."), "insufficient_quota"),
        (Fail(429, retry_after=7), "rate_limit_exceeded"),
        (Fail(529), "overloaded_error"),
        (Fail(403, "The input was flagged by moderation."), "content_filter"),
        (Fail(429, body='{"error": {"code": "1113", "message": "no"}}'), "insufficient_quota"),
        (Fail(400, body='{"error": {"code": "1301", "message": "no"}}'), "content_filter"),
        (Fail(400, body='{"error": {"code": "context_length_exceeded", "message": "x"}}'), "context_length_exceeded"),
        (Fail(400, body='{"error": {"type": "a", "code": "tool_use_failed", "message": "x"}}'), "tool_use_failed"),
        (Fail(400, body='{"code": "1261", "msg": "no"}'), "context_length_exceeded"),
        (Raw(("\x8b\x02\x80",), 400, BROTLI, "latin-1"), "api_error"),
        (Fail(502, body="<html>bad gateway</html>"), "api_error"),
    ],
)
async def test_errors_have_openais_shape(
    api: FakeAnthropic, provider: AnthropicProvider, step: Fail | Raw, code: str
) -> None:
    api.script.append(step)
    status, _, reply = await ask(provider, USER, stream=True)
    assert status == step.status
    assert reply["error"]["code"] == code
    assert reply["error"]["message"].isascii()
    if isinstance(step, Fail) and step.body is not None:
        direct, passed = (from_response(status, {}, body) for body in (step.body.encode(), to_json(reply)))
        assert (passed.code, passed.transient) == (direct.code, direct.transient)
    if isinstance(step, Raw):
        assert "compresses its answer as br" in reply["error"]["message"]


async def headers_of(provider: AnthropicProvider) -> Mapping[str, str]:
    async with provider.call(ProviderCall("chat", to_json({"model": NEW, "messages": [USER]}), model=NEW)) as answer:
        return answer.headers


@pytest.mark.parametrize(
    ("headers", "error"),
    [
        ({"retry-after": "12"}, {}),
        ({"retry-after-ms": "12000"}, {}),
        ({"x-retry-after": "12"}, {}),
        ({"x-ratelimit-reset": "12"}, {}),
        ({"anthropic-ratelimit-tokens-reset": "12", "anthropic-ratelimit-tokens-remaining": "0"}, {}),
        ({}, {"retry_after": 12}),
        ({}, {"resets_in_seconds": 12}),
        ({}, {"message": "Please try again in 12 seconds"}),
    ],
)
async def test_how_long_to_wait_reaches_the_agent_wherever_it_stands(
    api: FakeAnthropic, provider: AnthropicProvider, headers: dict[str, str], error: Message
) -> None:
    body = {"type": "error", "error": {"type": "rate_limit_error", "message": "slow", **error}}
    api.script.append(Raw((json.dumps(body),), 429, headers))
    assert from_response(429, await headers_of(provider), b"").retry_after == 12


@pytest.mark.parametrize("told", ["true", "false"])
async def test_whether_to_ask_again_is_passed_on(api: FakeAnthropic, provider: AnthropicProvider, told: str) -> None:
    api.script.append(Raw(("{}",), 529, {"x-should-retry": told}))
    assert (await headers_of(provider)) == {"x-should-retry": told}


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"code": 429, "msg": "too fast"}, "too fast"),
        ({"detail": "bad"}, "bad"),
        ([{"error": {"code": 400, "message": "odd", "status": "INVALID_ARGUMENT"}}], "odd"),
        ({"error": "plain words"}, "plain words"),
    ],
)
async def test_words_of_an_error_in_any_shape(
    api: FakeAnthropic, provider: AnthropicProvider, body: Any, message: str
) -> None:
    api.script.append(Fail(400, body=json.dumps(body)))
    assert (await ask(provider, USER))[2]["error"]["message"] == message


FAULT = 'event: error\ndata: {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}\n\n'


@pytest.mark.parametrize(
    ("step", "code"),
    [(Drop(after=0), "provider_unreachable"), (Drop(after=4), "provider_dropped"), (Garbage(FAULT), "overloaded_error"),
     (Garbage('data: {"type": "error", "error": {"code": "1113", "message": "no"}}\n\n'), "1113"),
     (Drop(after=4, clean=True), "provider_dropped"), (Garbage("data: {nonsense\n\n"), "provider_error"),
     (Fail(401), "provider_auth"), (Fail(403), "provider_auth"),
     (Raw(("no gzip",), status=400, headers={"content-encoding": "gzip"}), "provider_dropped")],
)  # fmt: skip
async def test_what_breaks_off_is_reported(
    api: FakeAnthropic, provider: AnthropicProvider, step: Any, code: str
) -> None:
    api.script.append(step)
    with pytest.raises(ProviderFailed) as caught:
        await ask(provider, USER, stream=True)
    assert caught.value.code == code


JSON, HTML = {"content-type": "application/json"}, {"content-type": "text/html"}
NO_ANSWERS = [
    (Raw(("<html>Log in.</html>",), headers=HTML), "provider_error", "<html>Log in"),
    (Raw(("",), headers=JSON), "provider_error", "without JSON"),
    (Raw(('["odd"]',), headers=JSON), "provider_error", "odd"),
    (Raw(('{"error": "Service is down."}',), headers=JSON), "provider_error", "Service is down"),
    (Raw(("no gzip",), headers={**JSON, "content-encoding": "gzip"}), "provider_dropped", "decompress"),
]  # with the status 200
OVERLOADED = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(
    ("step", "code", "words"),
    [*NO_ANSWERS, (Raw((json.dumps(OVERLOADED),), headers=JSON), "overloaded_error", "Overloaded")],
)
async def test_a_success_without_a_message_is_a_failure(
    api: FakeAnthropic, provider: AnthropicProvider, step: Raw, code: str, words: str, stream: bool
) -> None:
    api.script.append(step)
    with pytest.raises(ProviderFailed, match=words) as caught:
        await ask(provider, USER, stream=stream)
    assert caught.value.code == code


@pytest.mark.parametrize(
    ("error", "code"),
    [(httpx2.ConnectTimeout("late"), "provider_unreachable"), (httpx2.ReadTimeout("late"), "provider_timeout")],
)
def test_only_a_provider_that_was_asked_was_silent(error: Exception, code: str) -> None:
    spec = ProviderSpec("anthropic", "anthropic", "http://127.0.0.1:1", "sk-ant", set_by="ANTHROPIC_API_KEY")
    assert transport_failed(spec, error, reached=False).code == code


@pytest.mark.parametrize(
    ("set_by", "provider"), [("ANTHROPIC_API_KEY", "anthropic"), ("OPENAI_API_KEY", "openai-compatible"), ("MINE", "")]
)
def test_a_refused_key_that_agent_up_keeps_is_replaced_by_it(set_by: str, provider: str) -> None:
    refused = key_refused(ProviderSpec("p", "openai", "http://127.0.0.1:1", "sk-1", set_by=set_by), 401, b"{}")
    fix = f"; where `agent up` has started the host: `agent down`, then `agent up --provider {provider}`"
    assert str(refused).partition("to a valid key")[2] == (fix if provider else "")


async def alive_before_the_text(provider: Provider, text: bytes, *, model: str = NEW) -> int:
    """Return how often a stream shows that it is alive before its text comes."""
    call = ProviderCall("chat", to_json({"model": model, "messages": [USER], "stream": True}), True)
    async with provider.call(call) as answer:
        body = b"".join([piece async for piece in answer.body])
    return body[: body.index(text)].count(b": alive\n\n")


async def test_an_argument_with_an_odd_name_is_described_instead(
    api: FakeAnthropic, provider: AnthropicProvider
) -> None:
    """Claude would refuse the whole request for it."""
    properties = {"$top": {"type": "integer"}, "path": {"type": "string"}}
    parameters = {"type": "object", "properties": properties, "required": ["$top", "path"]}
    function = {"name": "list", "description": "Lists.", "parameters": parameters}
    api.script.append(Say("ok"))
    status, _, _ = await ask(provider, USER, tools=[{"type": "function", "function": function}])
    [tool] = api.completions[-1].json["tools"]
    assert (status, tool["input_schema"]["required"]) == (200, ["path"])
    assert tool["input_schema"]["properties"].keys() == {"path"}
    assert tool["description"] == 'Lists.\n\nFurther arguments: {"$top":{"type":"integer"}}'


async def test_pings_are_passed_on_as_comments(api: FakeAnthropic, provider: AnthropicProvider) -> None:
    opened = {"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": ""}}
    api.script.append(Raw((*sse({"type": "message_start", "message": {}}, opened, *[{"type": "ping"}] * 3), *ANSWERED)))
    assert await alive_before_the_text(provider, b"Hello.") == 3


@pytest.mark.parametrize("stream", [True, False])
async def test_half_an_emoji_costs_nothing_of_the_answer(
    api: FakeAnthropic, provider: AnthropicProvider, stream: bool
) -> None:
    odd = ("event: ping\ndata: ping\n\n", 'data: {"type": "ping", "of": NaN}\n\n')
    whole = json.dumps({"content": [{"type": "text", "text": "Hello\ud83d"}], "stop_reason": "end_turn"})
    halved = tuple(piece.replace("Hello.", "Hello\\ud83d") for piece in ANSWERED)
    start = sse({"type": "message_start", "message": {}})
    api.script.append(Raw((*start, *odd, *halved)) if stream else Raw((whole,), headers=JSON))
    _, message, _ = await ask(provider, USER, stream=stream)
    assert message["content"] == "Hello\ufffd"


async def test_a_stream_under_a_wrong_label_is_read(api: FakeAnthropic, provider: AnthropicProvider) -> None:
    api.script.append(Raw((*sse({"type": "message_start", "message": {}}), *ANSWERED), headers=JSON))
    _, message, last = await ask(provider, USER, stream=True)
    assert (message["content"], last["finish_reason"]) == ("Hello.", "stop")


WHOLE = {
    "type": "message",
    "content": [
        {"type": "thinking", "thinking": "Hm.", "signature": "sig"},
        {"type": "text", "text": "Hello."},
        {"type": "tool_use", "id": "toolu_1", "name": "read", "input": {"a": 1}},
    ],
    "stop_reason": "tool_use",
    "usage": {"input_tokens": 3, "output_tokens": 2},
}


async def test_a_whole_answer_that_is_labelled_as_a_stream_is_read(
    api: FakeAnthropic, provider: AnthropicProvider
) -> None:
    api.script.append(Raw((json.dumps(WHOLE),)), Raw((json.dumps(OVERLOADED),)))
    _, message, last = await ask(provider, USER, stream=True)
    (detail,), (call,) = message["reasoning_details"], message["tool_calls"]
    assert (message["content"], detail["text"], detail["signature"]) == ("Hello.", "Hm.", "sig")
    assert (call["id"], call["function"]) == ("toolu_1", {"name": "read", "arguments": '{"a":1}'})
    assert (last["finish_reason"], last["usage"]["total_tokens"]) == ("tool_calls", 5)
    with pytest.raises(ProviderFailed, match="Overloaded"):
        await ask(provider, USER, stream=True)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"n": 2}, "n: Claude does not offer this"),
        ({"tools": [{"type": "function", "function": {"name": "a.b"}}]}, "tools: the name 'a.b'"),
        ({"messages": [{"role": "user", "content": [{"type": "input_audio"}]}]}, "no part of the type 'input_audio'"),
        ({"messages": [{"role": "king", "content": "x"}]}, "there is no role 'king'"),
    ],
)
async def test_what_claude_cannot_be_asked_is_refused(provider: AnthropicProvider, fields: Message, words: str) -> None:
    with pytest.raises(ProviderFailed, match=words) as caught:
        await ask(provider, USER, **fields)
    assert caught.value.status == 400
