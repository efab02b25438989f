"""The model client against a provider with bad days, over a real socket."""

from __future__ import annotations

import asyncio
import gzip
import json
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest

from agent_common.protocol import ModelCard, Pricing, Usage
from agent_runtime.errors import ModelError
from agent_runtime.mesh import ModelCatalog, ModelClient, RetryPolicy
from agent_runtime.ports import (
    CallPiece,
    CallStarted,
    Completion,
    ModelEvent,
    ModelRequest,
    ReasoningPiece,
    Retrying,
    TextPiece,
    ToolCall,
)
from agent_testing import Call, Drop, Fail, Garbage, Hang, ManualClock, Raw, Say, ScriptedProvider, Step

REQUEST = ModelRequest("default", [b'{"role":"user","content":"hi"}'])


@asynccontextmanager
async def client_of(
    url: str, *, attempts: int = 1, idle: float = 10.0
) -> AsyncGenerator[tuple[ModelClient, ModelCatalog]]:
    catalog = ModelCatalog(url, {}, ManualClock())
    client = ModelClient(url, {"authorization": "Bearer t"}, catalog, RetryPolicy(attempts, idle))
    try:
        yield client, catalog
    finally:
        await client.close()
        await catalog.close()


async def collect(client: ModelClient, request: ModelRequest = REQUEST) -> list[ModelEvent]:
    async with asyncio.timeout(60):
        return [event async for event in client.stream(request)]


async def events(*steps: Step, request: ModelRequest = REQUEST, **patience: Any) -> list[ModelEvent]:
    with ScriptedProvider(steps) as provider:
        async with client_of(provider.url, **patience) as (client, _):
            return await collect(client, request)


def completion(found: list[ModelEvent]) -> Completion:
    assert isinstance(found[-1], Completion)
    assert sum(isinstance(event, Completion) for event in found) == 1
    return found[-1]


async def test_an_answer_comes_piece_by_piece() -> None:
    usage = {
        "prompt_tokens": 100,
        "completion_tokens": 30,
        "prompt_tokens_details": {"cached_tokens": 60},
        "completion_tokens_details": {"reasoning_tokens": 10},
    }
    found = await events(Say("All is well", reasoning="hm", calls=(Call("read", {"path": "a"}, id="c1"),), usage=usage))
    assert found[0] == ReasoningPiece("hm")
    assert [event.text for event in found if isinstance(event, TextPiece)] == ["All ", "is ", "well"]
    assert CallStarted("c1", "read") in found
    assert "".join(event.text for event in found if isinstance(event, CallPiece)) == '{"path": "a"}'
    done = completion(found)
    assert done.calls == (ToolCall("c1", "read", '{"path": "a"}'),)
    assert done.stop_reason == "tool-calls"
    assert done.usage == Usage(input=40, output=20, reasoning=10, cache_read=60)
    assert done.usage_reported


async def test_what_is_asked() -> None:
    request = ModelRequest("big", REQUEST.messages, b'[{"type":"function"}]', "none", 99)
    with ScriptedProvider([Say("ok")]) as provider:
        async with client_of(provider.url) as (client, _):
            await collect(client, request)
        (asked,) = provider.completions
    assert asked.json == {
        "model": "big",
        "stream": True,
        "stream_options": {"include_usage": True},
        "max_tokens": 99,
        "messages": [{"role": "user", "content": "hi"}],
        "tools": [{"type": "function"}],
        "tool_choice": "none",
    }
    assert asked.headers["authorization"] == "Bearer t"


@pytest.mark.parametrize(("status", "named"), [(400, "tool_choice"), (422, "body.tool_choice")])
async def test_a_choice_of_tools_that_is_refused_by_name_is_left_out(status: int, named: str) -> None:
    refusal = Fail(status, f"{named}: Extra inputs are not permitted")
    request = ModelRequest("big", REQUEST.messages, b'[{"type":"function"}]', "auto")
    with ScriptedProvider([refusal, Say("ok"), Say("ok")]) as provider:
        async with client_of(provider.url) as (client, _):
            await collect(client, request)
            await collect(client, request)
        first, *later = provider.completions
    assert first.json["tool_choice"] == "auto"
    assert [asked.json.get("tool_choice") for asked in later] == [None, None]
    assert all("tools" in asked.json for asked in later)


@pytest.mark.parametrize("words", ["ping", ": keepalive", "OPENROUTER PROCESSING"])
async def test_words_as_data_cost_nothing_of_an_answer(words: str) -> None:
    event = {"choices": [{"delta": {"content": "ok"}, "finish_reason": None}]}
    body = f"data: {words}\n\ndata: {json.dumps(event)}\n\ndata: {words}\n\ndata: [DONE]\n\n"
    found = await events(Raw((body,)))
    assert [event.text for event in found if isinstance(event, TextPiece)] == ["ok"]


async def test_an_answer_of_words_only_is_told_and_asked_again() -> None:
    found = await events(Raw(("data: upstream is gone\n\n",)), Say("ok"), attempts=2)
    (retry,) = [event for event in found if isinstance(event, Retrying)]
    assert "upstream is gone" in retry.message


async def test_a_busy_provider_is_asked_again_when_it_says() -> None:
    soon = format_datetime(datetime.now(tz=UTC) - timedelta(seconds=5))
    steps = (Fail(429, retry_after=0), Fail(503, retry_after=soon), Drop(), Say("at last"))
    found = await events(*steps, attempts=4)
    retries = [event for event in found if isinstance(event, Retrying)]
    assert [retry.attempt for retry in retries] == [1, 2, 3]
    assert retries[0].delay < 0.3
    assert retries[1].delay < 0.3
    assert "429" in retries[0].message
    assert completion(found).stop_reason == "stop"


@pytest.mark.parametrize("step", [Fail(500, retry_after=0), Fail(429, retry_after=0), Drop(clean=True), Garbage("")])
async def test_attempts_are_counted(step: Step) -> None:
    with pytest.raises(ModelError) as caught:
        await events(step, step, attempts=2)
    busy = isinstance(step, Fail) and step.status == 429
    assert caught.value.code == ("model_rate_limited" if busy else "model_unavailable")
    assert caught.value.transient


@pytest.mark.parametrize(
    "soon", [0, *(pytest.param(one, marks=pytest.mark.slow) for one in ("0.01", "Wed, 21 Oct 2015 07:28:00 GMT"))]
)
async def test_a_provider_that_says_at_once_again_and_again_is_given_time(soon: float | str) -> None:
    found = await events(*[Fail(429, retry_after=soon)] * 3, Say("at last"), attempts=4)
    first, second, third = (event.delay for event in found if isinstance(event, Retrying))
    assert max(first, second) < 0.3
    assert 0.9 < third <= 3.1


def told_to(status: int, again: str) -> Raw:
    error = json.dumps({"error": {"message": "no"}})
    return Raw((error,), status, {"content-type": "application/json", "x-should-retry": again, "retry-after": "0"})


@pytest.mark.parametrize("status", [429, 503, 529])
async def test_a_provider_may_say_that_no_attempt_helps(status: int) -> None:
    with pytest.raises(ModelError) as caught:
        await events(told_to(status, "false"), Say("never"), attempts=4)
    assert not caught.value.transient


@pytest.mark.parametrize("status", [400, 404, 501])
async def test_a_provider_may_say_that_another_attempt_helps(status: int) -> None:
    assert completion(await events(told_to(status, "true"), Say("ok"), attempts=2)).stop_reason == "stop"
    with pytest.raises(ModelError, match=str(status)):
        await events(*[told_to(status, "true")] * 2, attempts=2)


@pytest.mark.parametrize("status", [401, 402, 403])
async def test_what_concerns_the_account_is_never_asked_again(status: int) -> None:
    with pytest.raises(ModelError) as caught:
        await events(told_to(status, "true"), Say("never"), attempts=2)
    assert not caught.value.transient


async def test_a_request_may_say_how_often_it_is_tried() -> None:
    fail = Fail(500, retry_after=0)
    with ScriptedProvider([fail, fail, fail, Say("too late")]) as provider:
        async with client_of(provider.url, attempts=1) as (client, _):
            with pytest.raises(ModelError):
                await collect(client, replace(REQUEST, attempts=3))
        assert len(provider.completions) == 3


async def test_a_provider_that_asks_for_too_long_a_wait_is_given_up() -> None:
    with pytest.raises(ModelError) as caught:
        await events(Fail(429, retry_after=3600), attempts=5)
    assert caught.value.retry_after == 3600


@pytest.mark.parametrize(
    ("step", "code"),
    [
        (Fail(401), "model_auth"),
        (Fail(403), "model_auth"),
        (Fail(404), "model_config"),
        (Fail(400, "This model's maximum context length is 8 tokens"), "context_overflow"),
        (Fail(413), "context_overflow"),
        (Fail(429, code="insufficient_quota"), "model_quota"),
    ],
)
async def test_what_no_retry_mends_is_not_tried_again(step: Step, code: str) -> None:
    with ScriptedProvider([step]) as provider:
        async with client_of(provider.url, attempts=3) as (client, _):
            with pytest.raises(ModelError) as caught:
                await collect(client)
        assert len(provider.completions) == 1
    assert caught.value.code == code
    assert not caught.value.transient


@pytest.mark.parametrize("clean", [False, True])
async def test_a_stream_that_drops_in_the_middle_is_not_made_again(clean: bool) -> None:
    """What the caller has seen is never taken back: he decides."""
    with ScriptedProvider([Drop(3, clean=clean)]) as provider:
        async with client_of(provider.url, attempts=3) as (client, _):
            seen: list[ModelEvent] = []
            with pytest.raises(ModelError) as caught:  # noqa: PT012  what came before the error counts
                async for event in client.stream(REQUEST):
                    seen.append(event)  # noqa: PERF401
        assert len(provider.completions) == 1
    assert seen == [TextPiece("one "), TextPiece("two "), TextPiece("three ")]
    assert caught.value.transient


async def test_a_model_that_falls_silent_is_given_up() -> None:
    with pytest.raises(ModelError, match=r"nothing for 0\.05 s") as caught:
        await events(Hang(2), idle=0.05)
    assert caught.value.transient


async def test_nobody_listens() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    async with client_of(f"http://127.0.0.1:{port}/v1") as (client, _):
        with pytest.raises(ModelError, match="cannot be reached") as caught:
            await collect(client)
    assert caught.value.transient


def stream(*payloads: str, end: str = "data: [DONE]\n\n") -> str:
    return "".join(f"data: {payload}\n\n" for payload in payloads) + end


def delta(**fields: Any) -> str:
    return json.dumps({"choices": [{"delta": fields}]})


WHOLE = json.dumps(
    {
        "choices": [{"message": {"content": "whole"}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 3, "completion_tokens": 2},
    }
)
STOP = '{"choices": [{"delta": {}, "finish_reason": "stop"}]}'


async def test_a_provider_that_reports_no_usage_is_estimated() -> None:
    found = await events(Garbage(stream(delta(content="12345678"), STOP)))
    assert not completion(found).usage_reported, "nobody takes the guess for a count"
    usage = completion(found).usage
    assert usage.output == 2
    assert usage.input > 20
    assert usage.cost_usd is None


THOUGHTS: dict[str, int] = {"reasoning_tokens": 0}
NOTHING: dict[str, Any] = {"prompt_tokens": 9000, "completion_tokens": 0, "completion_tokens_details": THOUGHTS}


@pytest.mark.parametrize(
    ("say", "output"),
    [
        (Say("Hello", reasoning="x" * 20_000, usage=NOTHING), 5001),
        (Say("word " * 200, usage=NOTHING), 250),
        (Say(calls=(Call("write", {"text": "x" * 400}),), usage=NOTHING), 100),
        (Say("Hello", usage=NOTHING), 0),
        (Say("word " * 200, usage=NOTHING | {"completion_tokens": 1}), 1),
    ],
)
async def test_a_long_answer_of_which_no_token_is_reported_is_estimated(say: Say, output: int) -> None:
    found = completion(await events(say))
    assert (found.usage.input, found.usage.reasoning, found.usage_reported) == (9000, 0, True)
    assert output <= found.usage.output <= output * 1.1


async def test_any_status_of_success_is_one() -> None:
    found = await events(Raw((stream(delta(content="whole"), STOP),), 201))
    assert found[0] == TextPiece("whole")


async def test_a_connection_that_breaks_behind_the_answer_breaks_nothing() -> None:
    found = await events(Garbage(stream(delta(content="whole"), STOP), length=100_000))
    assert found[0] == TextPiece("whole")
    assert completion(found).stop_reason == "stop"


@pytest.mark.parametrize("document", [WHOLE, WHOLE + "\n"])
async def test_a_connection_that_breaks_behind_a_whole_document_breaks_nothing(document: str) -> None:
    found = await events(Garbage(document, content_type="application/json", length=100_000))
    assert (found[0], completion(found).usage) == (TextPiece("whole"), Usage(input=3, output=2))
    with pytest.raises(ModelError, match="cannot be reached"):
        await events(Garbage(document[:-20], content_type="application/json", length=100_000))


async def test_half_an_emoji_is_replaced() -> None:
    found = await events(Garbage(stream('{"choices": [{"delta": {"content": "a\\ud83d b"}}]}', STOP)))
    assert found[0] == TextPiece("a\ufffd b")
    whole = await events(Garbage(stream('{"choices": [{"delta": {"content": "\\ud83d\\ude00"}}]}', STOP)))
    assert whole[0] == TextPiece("😀")


@pytest.mark.parametrize(
    "payload",
    [
        '{"choices": [{"delta": {"conte',
        '{"choices": ["text"]}',
        '{"choices": [{"delta": "text"}]}',
        '{"choices": 3}',
        '{"choices": [{"delta": {"content": 3}}]}',
        '{"error": {"message": "overloaded", "code": 529}}',
        '{"error": "overloaded"}',
    ],
)
async def test_what_is_no_completion_is_a_failure_of_the_model(payload: str) -> None:
    with pytest.raises(ModelError) as caught:
        await events(Garbage(stream(payload)))
    assert caught.value.code == "model_unavailable"
    assert caught.value.transient


@pytest.mark.parametrize("behind", ["[END]", "DONE", "[done]", '{"trunc', "[1]"])
async def test_what_cannot_be_read_behind_a_whole_answer_costs_nothing_of_it(behind: str) -> None:
    report = '{"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 2}}'
    found = await events(Garbage(stream(delta(content="whole"), STOP, behind, report)))
    assert (found[0], completion(found).usage) == (TextPiece("whole"), Usage(input=3, output=2))
    assert (await events(Garbage(stream(delta(content="whole"), STOP, end=f"data: {behind}"))))[0] == found[0]
    with pytest.raises(ModelError):
        await events(Garbage(stream(delta(content="whole"), behind)))


async def test_an_error_is_one_whatever_it_holds_up_to_the_end_of_the_answer() -> None:
    dead = "event: error\ndata: engine dead\n\n"
    with pytest.raises(ModelError, match="engine dead"):
        await events(Garbage(stream(delta(content="whole"), end=dead)))
    found = await events(Garbage(stream(delta(content="whole"), STOP, end=dead)))
    assert (found[0], completion(found).stop_reason) == (TextPiece("whole"), "stop")


async def test_what_cannot_be_read_costs_one_attempt_and_is_told() -> None:
    for odd in (stream("[1, 2]"), "<html>captive portal</html>"):
        with ScriptedProvider(otherwise=Garbage(odd)) as provider:
            async with client_of(provider.url, attempts=4) as (client, _):
                with pytest.raises(ModelError, match=r"\[1, 2\]|captive portal") as caught:
                    await collect(client)
            assert len(provider.completions) == 1
        assert not caught.value.transient


@pytest.mark.parametrize(
    ("error", "code"),
    [({"code": "provider_auth"}, "model_auth"), ({"code": "context_length_exceeded"}, "context_overflow")],
)
async def test_errors_inside_a_stream_have_codes_too(error: dict[str, str], code: str) -> None:
    with pytest.raises(ModelError) as caught:
        await events(Garbage(stream(json.dumps({"error": error}))))
    assert caught.value.code == code


async def test_members_that_say_nothing_are_passed_over() -> None:
    payloads = (
        '{"error": null, "choices": [{"delta": {"content": "ok", "tool_calls": null}}]}',
        '{"error": null, "choices": [{"delta": null, "finish_reason": "content_filter"}]}',
        '{"choices": [], "usage": {"prompt_tokens": 4, "completion_tokens": 1, "prompt_tokens_details": 7}}',
    )
    found = await events(Garbage(": comment\n\n" + stream(*payloads)))
    assert completion(found).stop_reason == "content-filter"
    assert completion(found).usage == Usage(input=4, output=1)


@pytest.mark.parametrize("index", [None, "same", "numbered"])
async def test_calls_stay_apart_whatever_ids_the_provider_gives(index: str | None) -> None:
    def one(number: int) -> str:
        call: dict[str, Any] = {"id": "call_x", "function": {"name": f"t{number}", "arguments": f'{{"n":{number}}}'}}
        if index != "same":
            call["index"] = number if index == "numbered" else None
        return delta(tool_calls=[call])

    done = completion(await events(Garbage(stream(one(0), one(1), one(2), STOP))))
    assert [(call.name, call.arguments) for call in done.calls] == [(f"t{n}", f'{{"n":{n}}}') for n in range(3)]
    assert len({call.id for call in done.calls}) == 3
    assert done.stop_reason == "tool-calls"


async def test_pieces_of_a_call_without_a_number_belong_to_the_last_one() -> None:
    opening = delta(tool_calls=[{"function": {"name": "t", "arguments": '{"n":'}}])
    rest = delta(tool_calls=[{"function": {"arguments": "1}"}}])
    assert completion(await events(Garbage(stream(opening, rest, STOP)))).calls[0].arguments == '{"n":1}'


async def test_a_call_is_priced_by_the_catalog_or_by_the_provider() -> None:
    card = ModelCard(id="default", pricing=Pricing(input=2, output=10, cache_read=1))
    usage = {"prompt_tokens": 1000, "completion_tokens": 100, "prompt_tokens_details": {"cached_tokens": 400}}
    steps = [Say("a", usage=usage), Say("a", usage=usage), Say("b", usage={**usage, "cost_usd": 0.5}),
             Say("c", usage={**usage, "cost_usd": "free"})]  # fmt: skip
    with ScriptedProvider(steps, models=[card]) as provider:
        async with client_of(provider.url) as (client, _):
            costs = [completion(await collect(client)).usage.cost_usd for _ in range(4)]
    assert costs == pytest.approx([0.0026, 0.0026, 0.5, 0.0026])


async def test_an_unknown_finish_reason_is_other() -> None:
    assert completion(await events(Say("a", finish_reason="banana"))).stop_reason == "other"


async def test_an_empty_answer_is_repeated_once_and_paid_for_twice() -> None:
    usage = {"prompt_tokens": 10, "completion_tokens": 1}
    found = await events(Say("", usage=usage), Say("fine"))
    assert [event.usage for event in found if isinstance(event, Retrying)] == [Usage(input=10, output=1)]
    assert found[1] == TextPiece("fine")
    for second in (Say(""), Fail(500)):
        done = completion(await events(Say("", usage=usage), second, attempts=4))
        assert (done.empty, done.stop_reason) == (True, "stop")


@pytest.mark.slow
async def test_a_model_that_is_being_loaded_is_waited_for_whatever_the_attempts() -> None:
    loading = Fail(503, "Loading model")
    found = await events(loading, loading, loading, Say("4"), attempts=1)
    assert [event.message for event in found if isinstance(event, Retrying)] == [
        "the model endpoint answered 503: Loading model"
    ] * 3
    assert completion(found).stop_reason == "stop"


@pytest.mark.parametrize(("wait", "delay"), [(20, 20), (150, 60)])
async def test_the_time_that_a_model_takes_to_load_is_waited_for_in_parts(wait: int, delay: float) -> None:
    with ScriptedProvider([Fail(503, "Loading model", retry_after=wait)]) as provider:
        async with client_of(provider.url) as (client, _):
            stream = client.stream(REQUEST)
            assert await anext(stream) == Retrying(1, "the model endpoint answered 503: Loading model", delay)


async def test_roles_that_a_template_refuses_are_joined() -> None:
    request = ModelRequest("default", [*REQUEST.messages, *REQUEST.messages])
    with ScriptedProvider([Fail(500, "Conversation roles must alternate user/assistant/..."), Say("ok")]) as provider:
        async with client_of(provider.url) as (client, _):
            assert completion(await collect(client, request)).stop_reason == "stop"
        assert [len(one.messages) for one in provider.completions] == [2, 1]


async def test_what_is_broken_on_its_way_is_tried_a_second_time_and_no_third() -> None:
    with ScriptedProvider(otherwise=Garbage(stream('{"choices": [{"delta": {"conte'))) as provider:
        async with client_of(provider.url, attempts=4) as (client, _):
            with pytest.raises(ModelError, match="is not JSON"):
                await collect(client)
        assert len(provider.completions) == 2


async def test_a_first_byte_may_take_longer_than_a_gap_and_is_not_waited_for_twice() -> None:
    found = await events(Say("4", wait=0.4), idle=0.3)
    assert found[0] == TextPiece("4")
    only_a_head = Raw(("data: {}",), delay=60)
    for silent in (Hang(0), only_a_head):
        with ScriptedProvider(otherwise=silent) as provider:
            async with client_of(provider.url, attempts=3, idle=0.05) as (client, _):
                with pytest.raises(ModelError, match=r"sent nothing for 0\.125 s"):
                    await collect(client)
            assert len(provider.completions) == 1


@pytest.mark.slow
async def test_a_finish_reason_ends_an_answer_whose_body_goes_on_for_ever() -> None:
    pieces = (stream(delta(content="whole"), STOP, end=""),)
    found = await events(Raw(pieces, heartbeat=": ping\n\n", heartbeat_seconds=0.2))
    assert found[0] == TextPiece("whole")
    for behind in ("\n", ": ping\n\n", "\n\ndata: [DONE]\n\n"):
        document = await events(Raw((WHOLE,), heartbeat=behind, heartbeat_seconds=0.2))
        assert document[0] == TextPiece("whole")
    empty = f"data: {delta(role='assistant', content=None)}\n\n"
    assert (await events(Raw(pieces, heartbeat=empty, heartbeat_seconds=0.2)))[0] == TextPiece("whole")
    late = Raw((*pieces, stream('{"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 2}}')), delay=1.0)
    assert completion(await events(late)).usage == Usage(input=3, output=2)


async def test_a_refusal_that_teaches_costs_no_attempt_and_is_remembered() -> None:
    refusal = "Unsupported parameter: 'max_tokens' is not supported. Use 'max_completion_tokens' instead."
    request = replace(REQUEST, max_tokens=50)
    with ScriptedProvider(otherwise=Say("fine")) as provider:
        provider.script.refuse(lambda body: "max_tokens" in body, Fail(400, refusal, code="unsupported_parameter"))
        async with client_of(provider.url) as (client, _):
            for _ in range(2):
                assert (await collect(client, request))[0] == TextPiece("fine")
        names = [
            sorted({"max_tokens", "max_completion_tokens"} & asked.fields.keys()) for asked in provider.completions
        ]
    assert names == [["max_tokens"], ["max_completion_tokens"], ["max_completion_tokens"]]


async def test_a_lesson_is_remembered_only_if_the_request_is_taken_so() -> None:
    quoting = "Invalid value: 'unknown stream_options'."
    with ScriptedProvider([Fail(400, quoting), Fail(400, quoting), Say("fine")]) as provider:
        async with client_of(provider.url) as (client, _):
            with pytest.raises(ModelError, match="Invalid value"):
                await collect(client)
            assert (await collect(client))[0] == TextPiece("fine")
        assert ["stream_options" in asked.fields for asked in provider.completions] == [True, False, True]


async def test_a_model_that_takes_tools_only_without_effort_is_asked_so() -> None:
    refusal = (
        "Function tools with reasoning_effort are not supported for gpt-5.6 in /v1/chat/completions. To use function"
        " tools, use /v1/responses or set reasoning_effort to 'none'."
    )
    with_tools = replace(REQUEST, tools=b'[{"type":"function","function":{"name":"read"}}]')
    with ScriptedProvider(otherwise=Say("fine")) as provider:
        provider.script.refuse(
            lambda body: "tools" in body and body.get("reasoning_effort") != "none", Fail(400, refusal)
        )
        async with client_of(provider.url) as (client, _):
            for request in (with_tools, with_tools, REQUEST):
                assert (await collect(client, request))[0] == TextPiece("fine")
        efforts = [asked.fields.get("reasoning_effort") for asked in provider.completions]
    assert efforts == [None, "none", "none", None]


OVERFLOW = '{"error": {"message": "too long", "code": "context_length_exceeded"}}'


@pytest.mark.parametrize(
    ("status", "coding", "body", "code"),
    [
        (400, "gzip", gzip.compress(OVERFLOW.encode()), "context_overflow"),
        (400, "gzip", gzip.compress(OVERFLOW.encode())[:-8], "context_overflow"),
        (429, "gzip", b"no gzip", "model_rate_limited"),
        (429, "br", b"?", "model_rate_limited"),
    ],
    ids=["gzip", "gzip without its end", "not gzip", "a coding that cannot be read"],
)
async def test_a_compressed_refusal_means_what_it_says(status: int, coding: str, body: bytes, code: str) -> None:
    sent = Raw((body.decode("latin-1"),), status, {"content-encoding": coding}, encoding="latin-1")
    with pytest.raises(ModelError) as caught:
        await events(sent)
    assert caught.value.code == code


@pytest.mark.slow
async def test_a_refusal_whose_body_goes_on_for_ever_ends() -> None:
    with pytest.raises(ModelError, match="too long"):
        await events(Raw((OVERFLOW,), 400, heartbeat="\n", heartbeat_seconds=0.2))


async def test_a_refusal_that_does_not_end_is_told() -> None:
    with ScriptedProvider(otherwise=Fail(400, "stream_options is not supported")) as provider:
        async with client_of(provider.url) as (client, _):
            with pytest.raises(ModelError, match="stream_options is not supported") as caught:
                await collect(client)
        assert len(provider.completions) == 2
    assert caught.value.code == "model_config"


@pytest.mark.parametrize(
    ("status", "body", "code"),
    [
        (400, OVERFLOW, "context_overflow"),
        (200, stream(OVERFLOW), "context_overflow"),
        (400, '{"error": {"message": "Unsupported parameter: \'max_tokens\'"}}', "model_config"),
        (404, '{"error": {"message": "no such thing", "code": "model_not_found"}}', "unknown_model"),
    ],
)
async def test_what_a_fallback_refuses_is_not_learned_of_the_wanted_model(status: int, body: str, code: str) -> None:
    headers = {"content-type": "text/event-stream", "x-model": "second", "x-fallback-reason": "default: on fire"}
    with ScriptedProvider(otherwise=Raw((body,), status, headers), models=["default", "second"]) as provider:
        async with client_of(provider.url) as (client, catalog):
            await catalog.models()
            with pytest.raises(ModelError) as caught:
                await collect(client)
        assert len(provider.completions) == 1
    assert (caught.value.code, caught.value.by_fallback) == (code, True)
    assert "default" not in caught.value.message
