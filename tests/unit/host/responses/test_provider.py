"""OpenAI's Responses API through the host's provider, against a strict double of it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from pydantic_core import to_json

from agent_common.completions import from_event, from_response
from agent_host.errors import ProviderFailed
from agent_host.proxy.catalog.catalog import ProviderSpec
from agent_host.proxy.providers import ProviderCall
from agent_host.proxy.providers.http import key_refused
from agent_host.proxy.providers.responses import ResponsesProvider
from agent_testing import Call, Drop, Fail, FakeResponses, Garbage, Items, Raw, Say
from tests.unit.host.anthropic.test_provider import (
    BROTLI,
    JSON,
    NO_ANSWERS,
    alive_before_the_text,
    put_together,
    results,
    sse,
)

MODEL = "gpt-5.4"
TOOLS = [
    {"type": "function", "function": {"name": name, "description": f"the tool {name}"}} for name in ("read", "list")
]
USER = {"role": "user", "content": "What do the notes say?"}
Message = dict[str, Any]


@pytest.fixture
def api() -> Iterator[FakeResponses]:
    with FakeResponses([], api_key="sk-oai") as api:
        yield api


@pytest.fixture
async def provider(api: FakeResponses) -> AsyncIterator[ResponsesProvider]:
    provider = ResponsesProvider(ProviderSpec("openai", "openai", api.url, "sk-oai", set_by="OPENAI_API_KEY"), 10, 60)
    yield provider
    await provider.close()


async def ask(provider: ResponsesProvider, *messages: Message, **fields: Any) -> tuple[int, Message, Message]:
    """Return the status, the message put together, and the whole answer or the last chunk with usage."""
    options = {name: fields.pop(name) for name in ("max_output", "effort", "idempotency_key") if name in fields}
    payload: Message = {"model": MODEL, "messages": list(messages), **fields}
    call = ProviderCall("chat", to_json(payload), bool(payload.get("stream")), model=payload["model"], **options)
    async with provider.call(call) as answer:
        body = b"".join([piece async for piece in answer.body])
        if answer.status == 200 and call.streamed:
            return 200, *put_together(body)
        reply = json.loads(body)
        return answer.status, reply.get("choices", [{"message": {}}])[0]["message"], reply


def text(words: str) -> Message:
    part = {"type": "output_text", "annotations": [], "logprobs": [], "text": words}
    return {"type": "message", "content": [part]}


def thought(*words: str) -> Message:
    return {"type": "reasoning", "summary": [{"type": "summary_text", "text": one} for one in words]}


def call(name: str, arguments: str = "{}") -> Message:
    return {"type": "function_call", "name": name, "arguments": arguments}


SHAPES: list[Say] = [
    Say("Let me see.", reasoning="I must look.", calls=(Call("read", {"path": "a"}), Call("list", {}))),
    Say(calls=(Call("read", {}),)),
    Items(output=(thought("One. ", "Two."), call("read", '{"path": "é"}'), thought(), text("Now. "), call("list"))),
    Items(output=(call("read"), text("First. "), text("Second."), thought("hm"), call("list", '{ "path" : "b"}'))),
]


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("shape", SHAPES, ids=range(len(SHAPES)))
async def test_an_answer_goes_back_as_it_came(
    api: FakeResponses, provider: ResponsesProvider, shape: Say, stream: bool
) -> None:
    api.script.append(shape, Say("The notes say hello.", reasoning="Done."))
    status, message, answer = await ask(provider, USER, tools=TOOLS, stream=stream)
    assert status == 200
    assert (answer.get("finish_reason") or answer["choices"][0]["finish_reason"]) == "tool_calls"
    status, final, _ = await ask(provider, USER, message, *results(message), tools=TOOLS, stream=stream)
    assert (status, final["content"]) == (200, "The notes say hello.")
    sent = api.completions[1].json["input"]
    kinds = [item["type"] for item in sent[1:]]
    assert kinds.count("function_call") == kinds.count("function_call_output") == len(message["tool_calls"])
    if isinstance(shape, Items):
        assert kinds[: len(shape.output)] == [item["type"] for item in shape.output]
        assert [one.get("arguments") for one in sent[1 : 1 + len(shape.output)]] == [
            one.get("arguments") for one in shape.output
        ]


async def test_a_text_without_a_visible_character_is_left_out(api: FakeResponses, provider: ResponsesProvider) -> None:
    api.script.append(Items(output=(text("\n"), thought("hm"), call("read"), thought("so"))), Say("ok"))
    _, message, _ = await ask(provider, USER, tools=TOOLS)
    status, _, _ = await ask(provider, USER, {**message, "content": None}, *results(message), tools=TOOLS)
    assert status == 200
    kinds = [item.get("type") for item in api.completions[1].json["input"]]
    assert kinds == [None, "reasoning", "function_call", "function_call_output"], (
        "nor is reasoning that nothing follows"
    )


async def test_reasoning_that_is_not_encrypted_stays_out(api: FakeResponses, provider: ResponsesProvider) -> None:
    api.script.append(Items(output=({**thought("hm"), "encrypted_content": None}, call("read"))), Say("ok"))
    _, message, _ = await ask(provider, USER, tools=TOOLS, stream=True)
    status, _, reply = await ask(provider, USER, message, *results(message), tools=TOOLS)
    assert status == 200, reply
    kinds = [item.get("type") for item in api.completions[1].json["input"]]
    assert kinds == [None, "function_call", "function_call_output"]


async def test_a_request_is_converted(api: FakeResponses, provider: ResponsesProvider) -> None:
    api.script.append(Say("ok"), Say("ok"), Say("ok"))
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA==", "detail": "low"}}
    schema = {"name": "answer", "schema": {"type": "object"}, "strict": True}
    status, _, _ = await ask(
        provider,
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "Look."}, image]},
        {"role": "system", "content": "A note."},
        tools=TOOLS,
        tool_choice={"type": "function", "function": {"name": "read"}},
        parallel_tool_calls=False,
        max_tokens=5,
        reasoning_effort="high",
        verbosity="low",
        response_format={"type": "json_schema", "json_schema": schema},
        seed=1,
        presence_penalty=0.5,
        prompt_cache_key="k",
        metadata={"a": "b"},
        stream_options={"include_usage": True},
    )
    assert status == 200
    sent = api.completions[0].json
    assert sent["instructions"] == "Be brief."
    assert sent["input"][0]["content"] == [
        {"type": "input_text", "text": "Look."},
        {"type": "input_image", "image_url": "data:image/png;base64,AA==", "detail": "low"},
    ]
    assert sent["input"][1] == {"role": "developer", "content": [{"type": "input_text", "text": "A note."}]}
    assert sent["tools"][0]["name"] == "read"
    assert sent["tools"][0]["strict"] is False
    rest = {name: value for name, value in sent.items() if name not in ("instructions", "input", "tools")}
    assert rest == {
        "model": MODEL,
        "store": False,
        "include": ["reasoning.encrypted_content"],
        "reasoning": {"summary": "auto", "effort": "high"},
        "tool_choice": {"type": "function", "name": "read"},
        "parallel_tool_calls": False,
        "max_output_tokens": 16,
        "text": {"format": {"type": "json_schema", **schema}, "verbosity": "low"},
        "prompt_cache_key": "k",
        "metadata": {"a": "b"},
    }
    await ask(provider, USER, model="gpt-4.1", temperature=0.5, max_output=100, max_completion_tokens=200)
    plain = api.completions[1].json
    assert not plain.keys() & {"include", "reasoning"}
    assert (plain["temperature"], plain["max_output_tokens"]) == (0.5, 100)
    await ask(provider, USER, effort="low")
    assert api.completions[2].json["reasoning"]["effort"] == "low"


async def test_a_history_of_another_model_is_mended(api: FakeResponses, provider: ResponsesProvider) -> None:
    api.script.append(Say("ok"))
    long_id, calls = "c" * 300, [("read:0", "read"), ("c" * 300, "list"), ("gone", "bad name!")]
    told = [{"id": one, "type": "function", "function": {"name": name, "arguments": ""}} for one, name in calls]
    status, _, _ = await ask(
        provider,
        USER,
        {"role": "assistant", "content": " ", "reasoning_content": "hm", "tool_calls": told},
        {"role": "tool", "tool_call_id": long_id, "content": [{"type": "text", "text": "b"}]},
        {"role": "tool", "tool_call_id": "read:0", "content": "a"},
        {"role": "assistant", "content": "So.", "tool_calls": told[:1]},
        {"role": "tool", "tool_call_id": "read:0", "content": "again"},
        {"role": "tool", "tool_call_id": "nobody", "content": "orphan"},
        tools=TOOLS,
    )
    assert status == 200
    sent = api.completions[0].json["input"]
    outputs = [one["output"] for one in sent if one.get("type") == "function_call_output"]
    assert outputs == [[{"type": "input_text", "text": "b"}], "a", "there is no result of this call", "again"]
    assert sent[-1] == {"role": "user", "content": [{"type": "input_text", "text": "orphan"}]}


async def test_what_was_changed_since_goes_back_without_its_reasoning(
    api: FakeResponses, provider: ResponsesProvider
) -> None:
    api.script.append(Say("Hello there.", reasoning="Greet."), Say("ok"))
    _, message, _ = await ask(provider, USER, stream=True)
    message["content"] = "Hello."
    assert (await ask(provider, USER, message, USER))[0] == 200
    assert api.completions[1].json["input"][1] == {"role": "assistant", "content": "Hello."}


@pytest.mark.parametrize("stream", [True, False])
async def test_usage_and_ends(api: FakeResponses, provider: ResponsesProvider, stream: bool) -> None:
    used = {
        "input_tokens": 100,
        "input_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 10},
        "output_tokens": 30,
        "output_tokens_details": {"reasoning_tokens": 20},
        "total_tokens": 130,
    }
    refusal = Items(output=({"type": "message", "content": [{"type": "refusal", "refusal": "No."}]},))
    api.script.append(Say("cut", usage=used, finish_reason="length"), Say("x", finish_reason="content_filter"), refusal)
    _, _, answer = await ask(provider, USER, stream=stream)
    assert (answer.get("finish_reason") or answer["choices"][0]["finish_reason"]) == "length"
    assert answer["usage"] == {
        "prompt_tokens": 100,
        "completion_tokens": 30,
        "total_tokens": 130,
        "prompt_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 10},
        "completion_tokens_details": {"reasoning_tokens": 20},
    }
    _, _, answer = await ask(provider, USER, stream=stream)
    assert (answer.get("finish_reason") or answer["choices"][0]["finish_reason"]) == "content_filter"
    _, message, answer = await ask(provider, USER, stream=stream)
    assert "No." in json.dumps([message, answer]) or stream


LESSONS = [
    ("Encrypted content is not supported with this model.", "include", lambda r: "include" in r),
    (
        "Your organization must be verified to generate reasoning summaries.",
        "reasoning.summary",
        lambda r: "summary" in r.get("reasoning", {}),
    ),
]


@pytest.mark.parametrize(("words", "param", "rule"), LESSONS)
async def test_what_a_model_refuses_of_ours_is_left_out_from_then_on(
    api: FakeResponses, provider: ResponsesProvider, words: str, param: str, rule: Any
) -> None:
    api.script.replace(otherwise=Say("ok", reasoning="hm"))
    body = json.dumps({"error": {"message": words, "param": param, "code": "unsupported_value"}})
    api.script.refuse(rule, Fail(400, body=body))
    for _ in range(2):
        assert (await ask(provider, USER))[0] == 200
    assert len(api.completions) == 3


@pytest.mark.parametrize(("words", "param", "rule"), LESSONS)
async def test_a_refusal_that_stays_without_what_it_names_teaches_nothing(
    api: FakeResponses, provider: ResponsesProvider, words: str, param: str, rule: Any
) -> None:
    body = json.dumps({"error": {"message": words, "param": param, "code": "unsupported_value"}})
    api.script.replace([Fail(400, body=body)] * 2, otherwise=Say("ok", reasoning="hm"))
    assert (await ask(provider, USER))[0] == 400
    assert (await ask(provider, USER))[0] == 200
    assert [rule(asked.json) for asked in api.completions] == [True, False, True]


@pytest.mark.parametrize("header", ["x-should-retry", "retry-after-ms", "x-ratelimit-reset"])
async def test_headers_of_an_error_that_say_whether_and_when_to_ask_again(
    api: FakeResponses, provider: ResponsesProvider, header: str
) -> None:
    api.script.append(Raw(("{}",), 429, {header: "12"}))
    call = ProviderCall("chat", to_json({"model": MODEL, "messages": [USER]}), model=MODEL)
    async with provider.call(call) as answer:
        assert answer.headers[header] == "12"


async def test_errors_keep_their_words_and_codes(api: FakeResponses, provider: ResponsesProvider) -> None:
    api.script.append(Fail(429, retry_after=7))
    call = ProviderCall("chat", to_json({"model": MODEL, "messages": [USER]}), model=MODEL)
    async with provider.call(call) as answer:
        body = json.loads(b"".join([piece async for piece in answer.body]))
        assert (answer.status, answer.headers["retry-after"]) == (429, "7")
        assert body["error"]["code"] == "rate_limit_exceeded"
    status, _, reply = await ask(provider, {"role": "user", "content": "x" * 1_700_000})
    assert (status, reply["error"]["code"]) == (400, "context_length_exceeded")


BROKEN = {"code": "server_error", "message": "oh"}
FAILED = {"type": "response.failed", "response": {"status": "failed", "error": BROKEN}}
ERROR = {"type": "error", "code": "rate_limit_exceeded", "message": "slow down", "param": None}
ERRORS = [(FAILED, "server_error", 502), (ERROR, "rate_limit_exceeded", 429)]


def failed(code: str | None, message: str = "no", **more: str) -> Message:
    return {
        "type": "response.failed",
        "response": {"status": "failed", "error": {"code": code, "message": message, **more}},
    }


FAULTS = [
    *((failed(code), code, 400) for code in ("cyber_policy", "bio_policy", "image_content_policy_violation")),
    *((failed(code), code, 400) for code in ("invalid_prompt", "invalid_image_format", "unsupported_image_media_type")),
    *((failed(code), code, 400) for code in ("image_parse_error", "image_too_large", "empty_image_file")),
    (failed(None, type="invalid_request_error"), "invalid_request_error", 400),
    (failed("unsupported_value"), "unsupported_value", 400),
    (failed("odd", "Your prompt was flagged"), "odd", 400),
    (failed("model_not_found"), "model_not_found", 404),
    (failed("insufficient_quota"), "insufficient_quota", 429),
    (failed("failed_to_download_image"), "failed_to_download_image", 502),
    (failed("vector_store_timeout"), "vector_store_timeout", 502),
    (failed("odd"), "odd", 502),
]


@pytest.mark.parametrize(("event", "code", "status"), [*ERRORS, *FAULTS])
async def test_an_error_inside_a_stream_is_one(
    api: FakeResponses, provider: ResponsesProvider, event: Message, code: str, status: int
) -> None:
    api.script.append(Raw((f"event: {event['type']}\ndata: {json.dumps(event)}\n\n",)))
    with pytest.raises(ProviderFailed) as raised:
        await ask(provider, USER, stream=True)
    error = raised.value
    assert (error.code, error.status) == (code, status)
    told = {"error": {"code": error.code, "message": error.message}}
    whole, streamed = from_response(status, {}, to_json(told)), from_event(told["error"])
    assert (whole.code, whole.transient) == (streamed.code, streamed.transient)


@pytest.mark.parametrize(
    ("step", "code"), [(Drop(after=3), "provider_dropped"), (Garbage("data: {\n\n"), "provider_error")]
)
async def test_a_stream_that_breaks_off_is_no_answer(
    api: FakeResponses, provider: ResponsesProvider, step: Any, code: str
) -> None:
    api.script.append(step)
    with pytest.raises(ProviderFailed) as failed:
        await ask(provider, USER, stream=True)
    assert failed.value.code == code


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(
    ("step", "code", "words"),
    [*NO_ANSWERS, (Raw((json.dumps({"error": BROKEN}),), headers=JSON), "server_error", "oh")],
)
async def test_a_success_without_a_response_is_a_failure(
    api: FakeResponses, provider: ResponsesProvider, step: Raw, code: str, words: str, stream: bool
) -> None:
    api.script.append(step)
    with pytest.raises(ProviderFailed, match=words) as failed:
        await ask(provider, USER, stream=stream)
    assert failed.value.code == code


CREATED: Message = {"type": "response.created", "response": {}}
TEXT: Message = {"type": "response.output_text.delta", "output_index": 0, "delta": "Hello."}
COMPLETED: Message = {"type": "response.completed", "response": {"status": "completed", "output": []}}


async def test_events_that_say_nothing_are_passed_on_as_comments(
    api: FakeResponses, provider: ResponsesProvider
) -> None:
    quiet: list[Message] = [{"type": "response.in_progress"}, {"type": "keepalive"}]
    api.script.append(Raw(sse(CREATED, *quiet, TEXT, COMPLETED)))
    assert await alive_before_the_text(provider, b"Hello.", model=MODEL) == 2


async def test_odd_events_cost_nothing_of_the_answer(api: FakeResponses, provider: ResponsesProvider) -> None:
    odd = ("event: ping\ndata: ping\n\n", 'data: {"type": "keepalive", "of": NaN}\n\n')
    halved = sse({**TEXT, "delta": "Hello\ud83d"})
    api.script.append(Raw(("".join((*sse(CREATED), *odd, *halved, *sse(COMPLETED), "data: [END]\n\n")),)))
    _, message, last = await ask(provider, USER, stream=True)
    assert (message["content"], last["finish_reason"]) == ("Hello\ufffd", "stop")


async def test_a_stream_under_a_wrong_label_is_read(api: FakeResponses, provider: ResponsesProvider) -> None:
    api.script.append(Raw(sse(CREATED, TEXT, COMPLETED), headers=JSON))
    _, message, last = await ask(provider, USER, stream=True)
    assert (message["content"], last["finish_reason"]) == ("Hello.", "stop")


async def test_a_whole_answer_that_is_labelled_as_a_stream_is_read(
    api: FakeResponses, provider: ResponsesProvider
) -> None:
    said = {"type": "message", "content": [{"type": "output_text", "text": "Hello."}]}
    whole = {"object": "response", "status": "completed", "error": None, "output": [said]}
    failed = {"object": "response", "status": "failed", "error": BROKEN}
    api.script.append(*(Raw((json.dumps(one),)) for one in (whole, failed, {"error": BROKEN})))
    _, message, last = await ask(provider, USER, stream=True)
    assert (message["content"], last["finish_reason"]) == ("Hello.", "stop")
    for _ in range(2):
        with pytest.raises(ProviderFailed, match="oh"):
            await ask(provider, USER, stream=True)


async def test_a_wrong_key_is_the_operators(api: FakeResponses) -> None:
    provider = ResponsesProvider(ProviderSpec("openai", "openai", api.url, "wrong", set_by="OPENAI_API_KEY"), 10, 60)
    with pytest.raises(ProviderFailed, match=r"Incorrect API key provided.*OPENAI_API_KEY"):
        await ask(provider, USER)
    given = ProviderSpec("openai", "openai", api.url, "sk-oai", set_by="OPENAI_API_KEY")
    assert "key *** is bad" in key_refused(given, 401, b"key sk-oai is bad").message
    await provider.close()


async def test_a_compression_that_cannot_be_read_is_named(api: FakeResponses, provider: ResponsesProvider) -> None:
    api.script.append(Raw(("\x8b\x02\x80",), 429, BROTLI, "latin-1"), Raw(("\x8b\x02\x80",), 200, BROTLI, "latin-1"))
    call = ProviderCall("chat", to_json({"model": MODEL, "messages": [USER]}), model=MODEL)
    async with provider.call(call) as answer:
        body = b"".join([piece async for piece in answer.body])
    assert (answer.status, b"compresses its answer as br" in body) == (429, True)
    with pytest.raises(ProviderFailed, match="as br") as refused:
        await ask(provider, USER, stream=True)
    assert refused.value.code == "provider_unreadable"


@pytest.mark.parametrize(
    "fields",
    [
        {"n": 2},
        {"stop": ["x"]},
        {"logprobs": True},
        {"max_tokens": "many"},
        {"messages": [{"role": "user", "content": [{"type": "input_audio"}]}]},
        {"messages": [{"role": "alien", "content": "x"}]},
        {"tools": [{"type": "custom", "custom": {"name": "x"}}]},
    ],
)
async def test_what_the_api_has_nothing_for_is_refused_by_name(
    provider: ResponsesProvider, fields: dict[str, Any]
) -> None:
    with pytest.raises(ProviderFailed) as refused:
        await ask(provider, USER, **fields)
    assert refused.value.status == 400
