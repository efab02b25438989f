"""Answers of Claude and of the Responses API whose members are missing or of another kind."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from agent_host.errors import ProviderFailed
from agent_host.proxy.providers.anthropic import chunks as anthropic_chunks
from agent_host.proxy.providers.anthropic import completion as anthropic_completion
from agent_host.proxy.providers.responses import chunks as responses_chunks
from agent_host.proxy.providers.responses import completion as responses_completion

from .anthropic.test_provider import put_together

Event = dict[str, Any]


def block(index: int, **members: Any) -> Event:
    return {"type": "content_block_start", "index": index, "content_block": members}


def delta(index: int, **members: Any) -> Event:
    return {"type": "content_block_delta", "index": index, "delta": members}


def item(event: str, index: int, **members: Any) -> Event:
    return {"type": f"response.output_item.{event}", "output_index": index, "item": members}


def end(*output: Event) -> Event:
    return {"type": "response.completed", "response": {"status": "completed", "output": list(output)}}


def without(event: Event, *members: str) -> Event:
    return {name: value for name, value in event.items() if name not in members}


STARTED = {"type": "message_start", "message": {"id": "m", "model": "c", "usage": {"input_tokens": 3}}}
TOOL = block(1, type="tool_use", id="toolu_1", name="read", input={})
PIECE = delta(1, type="input_json_delta", partial_json='{"a":1}')
STOPPED = {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 2}}
CLAUDE = [
    STARTED,
    block(0, type="thinking", thinking="", signature=""),
    delta(0, type="thinking_delta", thinking="Hm."),
    delta(0, type="signature_delta", signature="sig"),
    block(2, type="redacted_thinking", data="xyz"),
    block(3, type="text", text="Hel"),
    delta(3, type="text_delta", text="lo."),
    TOOL,
    PIECE,
    {"type": "content_block_stop", "index": 1},
    STOPPED,
    {"type": "message_stop"},
]
CREATED = {"type": "response.created", "response": {"id": "r", "model": "g"}}
WORDS = {"type": "message", "content": [{"type": "output_text", "text": "Hello."}]}
THOUGHT = {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "Hm."}]}
CALL = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "read", "arguments": '{"a":1}'}
SAID = {"type": "response.output_text.delta", "output_index": 1, "delta": "Hello."}
ARGUMENTS = {"type": "response.function_call_arguments.delta", "output_index": 2, "delta": '{"a":1}'}
RESPONSES = [
    CREATED,
    item("added", 0, type="reasoning"),
    {"type": "response.reasoning_summary_text.delta", "output_index": 0, "delta": "Hm."},
    item("done", 0, **THOUGHT),
    SAID,
    item("done", 1, **WORDS),
    item("added", 2, **{**CALL, "arguments": ""}),
    ARGUMENTS,
    item("done", 2, **CALL),
    end(THOUGHT, WORDS, CALL),
]
Writer = type[anthropic_chunks.ChunkWriter] | type[responses_chunks.ChunkWriter]
CLAUDES, OPENAIS = anthropic_chunks.ChunkWriter, responses_chunks.ChunkWriter


def written(writer: Writer, events: list[Event]) -> Event:
    """Return the message that the chunks of these events are put together to."""
    made = writer(0)
    body = b"".join(map(made.feed, events))
    end = made.finish() if isinstance(made, anthropic_chunks.ChunkWriter) else b""
    return put_together(body + end)[0]


BOTH = ("Hello.", "call_1", '{"a":1}')
SEARCHED = [
    block(0, type="server_tool_use", id="s", name="web_search", input={}),
    delta(0, type="input_json_delta", partial_json='{"query":"x"}'),
    {"type": "content_block_stop", "index": 0},
    block(1, type="web_search_tool_result", tool_use_id="s", content=[]),
    {"type": "content_block_stop", "index": 1},
    block(4, type="mcp_tool_use", id="m", name="find", input={}),
    delta(4, type="input_json_delta", partial_json="{}"),
]
"""What the provider's server has called itself."""
ODD_ANSWERS: list[tuple[Writer, list[Event], tuple[str | None, str | None, str | None]]] = [
    (CLAUDES, CLAUDE, ("Hello.", "toolu_1", '{"a":1}')),
    (CLAUDES, CLAUDE[1:], ("Hello.", "toolu_1", '{"a":1}')),
    (CLAUDES, [STARTED, block(0, type="tool_use", name="read", input={"a": 1}), {"type": "content_block_stop"}, STOPPED,
               {"type": "message_stop"}], (None, "call_0", '{"a":1}')),
    (CLAUDES, [without(event, "index") for event in CLAUDE], ("Hello.", "toolu_1", '{"a":1}')),
    (CLAUDES, [STARTED, delta(0, type="text_delta", text=None), *CLAUDE[5:7], *CLAUDE[-2:]], ("Hello.", None, None)),
    (CLAUDES, [STARTED, *SEARCHED, block(2, type="text", text="Hello."), {"type": "message_stop"}],
     ("Hello.", None, None)),
    (CLAUDES, [STARTED, *SEARCHED, block(2, type="text", text="Hello."), block(3, type="tool_use", id="t", name="read"),
               delta(3, type="input_json_delta", partial_json='{"a":1}'), STOPPED], ("Hello.", "t", '{"a":1}')),
    (CLAUDES, [STARTED, block(0, type="tool_use", id="t", name="read", input={"a": 1}), STOPPED],
     (None, "t", '{"a":1}')),
    (CLAUDES, [STARTED, block(0, type="tool_use", id="t", name="read", input={"a": 1}),
               block(1, type="tool_use", id="u", name="read", input={}), STOPPED], (None, "t", '{"a":1}')),
    (CLAUDES, [STARTED, block(0, type="tool_use", id="t", name="read", input={"a": 1}),
               delta(0, type="input_json_delta", partial_json='{"a":1}'), STOPPED], (None, "t", '{"a":1}')),
    (CLAUDES, [STARTED, block(0, type="tool_use", id="t", name="read", input={"a": 1}), {"type": "message_stop"}],
     (None, "t", '{"a":1}')),
    (CLAUDES, [STARTED, block(0, type="tool_use", id="t", name="read", input={}),
               {**STOPPED, "delta": {"stop_reason": "max_tokens"}}], (None, "t", "")),
    (OPENAIS, [CREATED, ARGUMENTS, item("done", 0, **WORDS), item("done", 2, **CALL), end()], BOTH),
    (OPENAIS, [CREATED, {**ARGUMENTS, "output_index": 9}, end(WORDS)], ("Hello.", None, None)),
    (OPENAIS, RESPONSES, BOTH),
    (OPENAIS, RESPONSES[1:], BOTH),
    (OPENAIS, [CREATED, item("done", 0, **THOUGHT), item("done", 1, **WORDS), item("done", 2, **CALL), end()], BOTH),
    (OPENAIS, [CREATED, end(THOUGHT, WORDS, CALL)], BOTH),
    (OPENAIS, [{**SAID, "output_index": 0}, end(THOUGHT, WORDS, CALL)], BOTH),
    (OPENAIS, [without(event, "output_index") for event in RESPONSES], BOTH),
    (OPENAIS, [CREATED, item("added", 5, **{**CALL, "arguments": ""}), {**ARGUMENTS, "output_index": 5},
               end(THOUGHT, WORDS, CALL)], BOTH),
    (OPENAIS, [CREATED, item("done", 0, **without(CALL, "call_id")), end()], (None, "call_0", '{"a":1}')),
]  # fmt: skip


@pytest.mark.parametrize(("writer", "events", "expected"), ODD_ANSWERS, ids=range(len(ODD_ANSWERS)))
def test_what_is_said_in_odd_events_is_said_once(
    writer: Writer, events: list[Event], expected: tuple[str | None, str | None, str | None]
) -> None:
    message = written(writer, events)
    calls = [(call["id"], call["function"]["arguments"]) for call in message.get("tool_calls", []) if call["id"] != "u"]
    text, call_id, arguments = expected
    assert (message["content"], calls) == (text, [(call_id, arguments)] if call_id else [])


SIGNED = block(0, type="thinking", thinking="Hm.", signature="sig")
PART_OF_IT = delta(0, type="signature_delta", signature="sig")
BLOCK_ENDED = {"type": "content_block_stop", "index": 0}


@pytest.mark.parametrize(
    "events",
    [
        [SIGNED, BLOCK_ENDED],
        [SIGNED],
        [SIGNED, PART_OF_IT, BLOCK_ENDED],
        [without(SIGNED, "index"), without(BLOCK_ENDED, "index")],
        [block(0, type="thinking", thinking="Hm.", signature=""), PART_OF_IT, BLOCK_ENDED],
    ],
)
def test_thinking_that_comes_whole_keeps_its_signature(events: list[Event]) -> None:
    message = written(CLAUDES, [STARTED, *events, block(1, type="text", text="Hello."), STOPPED])
    (detail,) = message["reasoning_details"]
    assert (detail["text"], detail["signature"]) == ("Hm.", "sig")


def ended_by(event: Event) -> str:
    body = OPENAIS(0).feed(event)
    return json.loads(body.split(b"\n\n")[0].removeprefix(b"data: "))["choices"][0]["finish_reason"]


@pytest.mark.parametrize("kind", ["response.completed", "response.incomplete", "response"])
@pytest.mark.parametrize(
    ("response", "reason"),
    [
        ({"status": "incomplete"}, "length"),
        ({"status": "incomplete", "incomplete_details": None}, "length"),
        ({"status": "incomplete", "incomplete_details": {"reason": ""}}, "length"),
        ({"status": "incomplete", "incomplete_details": {"reason": "content_filter"}}, "content_filter"),
        ({"status": "incomplete", "incomplete_details": {"reason": "odd"}}, "odd"),
        ({"status": "cancelled"}, "cancelled"),
    ],
)
def test_an_answer_that_was_cut_has_not_ended_well(kind: str, response: Event, reason: str) -> None:
    if kind == "response":
        assert responses_completion.to_completion(response, 0)["choices"][0]["finish_reason"] == reason
    else:
        assert ended_by({"type": kind, "response": response}) == reason


def test_the_name_of_the_event_says_that_an_answer_was_cut() -> None:
    for response in (
        {},
        {"output": []},
        {"status": "completed"},
        {"incomplete_details": {"reason": "max_output_tokens"}},
    ):
        assert ended_by({"type": "response.incomplete", "response": response}) == "length"
    assert ended_by({"type": "response.completed", "response": {}}) == "stop"


@pytest.mark.parametrize(
    "response",
    [
        {"status": "failed"},
        {"status": "completed", "error": {"code": "server_error", "message": "boom"}},
        {"status": "failed", "error": {"code": "rate_limit_exceeded", "message": "boom"}},
    ],
)
@pytest.mark.parametrize("kind", ["response.completed", "response.incomplete", "response.failed"])
def test_a_failed_answer_has_failed_whatever_its_event_is_named(kind: str, response: Event) -> None:
    with pytest.raises(ProviderFailed):
        OPENAIS(0).feed({"type": kind, "response": response})


def test_a_text_without_words_is_not_the_word_none() -> None:
    texts = [{"type": "text", "text": None}, {"type": "text", "text": "Hello."}]
    claude = anthropic_completion.to_completion({"content": texts}, 0)
    openai = responses_completion.to_completion({"output": [{"type": "message", "content": texts}]}, 0)
    for answer in (claude, openai):
        assert answer["choices"][0]["message"]["content"] == "Hello."
        assert (answer["id"], answer["model"]) == ("", "")


def test_a_later_report_of_nothing_does_not_erase_what_was_counted() -> None:
    first = {"input_tokens": 5000, "cache_read_input_tokens": 3000, "output_tokens": 1}
    last = {"input_tokens": 0, "cache_read_input_tokens": 0, "cache_creation_input_tokens": None, "output_tokens": 12}
    made = anthropic_chunks.ChunkWriter(0)
    made.feed({"type": "message_start", "message": {"usage": first}})
    ended = made.feed({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": last})
    usage = json.loads(ended.split(b"\n\n")[1].removeprefix(b"data: "))["usage"]
    assert (usage["prompt_tokens"], usage["completion_tokens"]) == (8000, 12)
    assert usage["prompt_tokens_details"]["cached_tokens"] == 3000


def odd_forms(value: Any) -> Iterator[Any]:
    """Yield the value with each of its members left out or of another kind."""
    yield from (None, 7, "odd", [], ["odd"], {})
    if isinstance(value, dict):
        for name, member in value.items():
            yield without(value, name)
            yield from ({**value, name: odd} for odd in odd_forms(member))
    elif isinstance(value, list):
        for at, member in enumerate(value):
            yield from ([*value[:at], odd, *value[at + 1 :]] for odd in odd_forms(member))


@pytest.mark.parametrize(("writer", "events"), [(CLAUDES, CLAUDE), (OPENAIS, RESPONSES)])
def test_an_event_of_any_shape_is_read_or_refused(writer: Writer, events: list[Event]) -> None:
    for at, event in enumerate(events):
        for odd in filter(lambda form: isinstance(form, dict), odd_forms(event)):
            made = writer(0)
            with suppress(ProviderFailed):
                for one in (*events[:at], odd, *events[at + 1 :]):
                    for line in filter(None, made.feed(one).split(b"\n\n")):
                        assert line in (b": alive", b"data: [DONE]") or json.loads(line.removeprefix(b"data: "))


def test_an_answer_of_any_shape_is_converted() -> None:
    blocks = [event["content_block"] for event in CLAUDE if "content_block" in event]
    claude = {"id": "m", "model": "c", "content": blocks, "stop_reason": "tool_use", "usage": {"input_tokens": 3}}
    openai = {"id": "r", "status": "completed", "output": [THOUGHT, WORDS, CALL], "usage": {"input_tokens": 3}}
    for convert, answer in (
        (anthropic_completion.to_completion, claude),
        (responses_completion.to_completion, openai),
    ):
        for odd in odd_forms(answer):
            if isinstance(odd, dict):
                convert(odd, 0)
