"""Streams and whole answers in every form that a provider gives them."""

from __future__ import annotations

import gzip
import json
import zlib
from typing import Any

import pytest

from agent_common.completions import CompletionReader, Decompressor, EventSplitter, from_response
from agent_common.errors import ModelError
from agent_common.protocol import Usage
from agent_host.proxy.calls.usage_filter import UsageFilter
from tests.e2e.providers.cases import corpus

from .support import ERRORS, Answer, call, read, stream

HELLO = stream({"role": "assistant", "content": ""}, {"content": "Hel"}, {"content": "lo"})
READABLE = [
    case for case in corpus() if case.response and case.id[0] in "ABCD" and case.id not in ("A06", "A07", "A18")
]


def seen(answer: Answer) -> Any:
    reader = answer.reader
    return (
        answer.text,
        answer.reasoning,
        answer.calls,
        answer.started,
        reader.stop_reason,
        reader.usage,
        reader.fields,
    )


@pytest.mark.parametrize("case", READABLE, ids=[case.id for case in READABLE])
def test_where_the_bytes_are_cut_makes_no_difference(case: Any) -> None:
    body = "".join(case.answer.pieces).encode(case.answer.encoding)
    whole = read(body)
    assert all(seen(read(body, size)) == seen(whole) for size in (1, 2, 3, 7, 64))


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
@pytest.mark.parametrize("size", [0, 1, 5])
def test_any_line_end_and_any_field(end: bytes, size: int) -> None:
    noise = b"\xef\xbb\xbf: comment\n\nid: 1\nretry: 5\nevent: message\n: OPENROUTER PROCESSING\n\ndata:\ndata: \n\n"
    body = (noise + HELLO).replace(b"data: {", b"data:{").replace(b"\n", end)
    assert read(body, size).text == "Hello"


def test_an_event_over_several_lines_of_data() -> None:
    event = json.dumps({"choices": [{"delta": {"content": "Hello"}, "finish_reason": "stop"}]}, indent=1)
    body = b"".join(b"data: " + line.encode() + b"\n" for line in event.splitlines()) + b"\n"
    assert read(body).text == read(body, 3).text == "Hello"


def test_a_last_line_without_its_end_counts_and_a_part_of_one_does_not() -> None:
    assert read(HELLO.rstrip()).text == "Hello"
    cut = read(HELLO[: HELLO.index(b'"lo"')])
    assert (cut.text, cut.reader.complete) == ("Hel", False)


WHOLE = {
    "choices": [
        {"index": 0, "message": {"role": "assistant", "content": "Reading."}, "finish_reason": "stop"},
        {"index": 1, "message": call(id="c", name="read", arguments="{}"), "finish_reason": "tool_calls"},
    ],
    "usage": {"prompt_tokens": 7, "completion_tokens": 3},
}


@pytest.mark.parametrize("end", [b"", b"\n\ndata: [DONE]\n\n", b"\n[DONE]", b"  \n"])
def test_one_document_is_read_whole_with_all_its_choices(end: bytes) -> None:
    for text in (json.dumps(WHOLE), json.dumps(WHOLE, indent=2)):
        found = read(b" \n" + text.encode() + end, 11)
        assert (found.text, found.calls) == ("Reading.", [("read", "{}")])
        assert (found.reader.stop_reason, found.reader.usage) == ("tool-calls", Usage(input=7, output=3))


BESIDE_A_MESSAGE = '{"choices": [{"delta": {"content": "%s"}, "message": {"content": ""}, "finish_reason": %s}]}\n'
"""One of several documents, one a line."""


@pytest.mark.parametrize(
    ("body", "whole"),
    [
        (json.dumps(WHOLE), True),
        (f"\ufeff {json.dumps(WHOLE, indent=1)}\n\n", True),
        ('{"error": {"message": "busy"}}', True),
        ('{"detail": "busy"}', True),
        (json.dumps(WHOLE)[:-1], False),
        ('{"choices": [{"delta": {"content": "one of several"}}]}\n', False),
        ('[{"error": {"message": "busy"}}]', True),
        ("{}", False),
        ('{"error": null, "choices": []}\n{"choices": [{"delta": {"content": "one of several"}}]}\n', False),
        (BESIDE_A_MESSAGE % ("He", "null"), False),
        (BESIDE_A_MESSAGE % ("", "null"), False),
        (BESIDE_A_MESSAGE % ("He", '"null"'), False),
        (BESIDE_A_MESSAGE % ("He", "null") + BESIDE_A_MESSAGE % ("", '"stop"'), False),
        (HELLO.decode(), False),
        ("", False),
    ],
)
@pytest.mark.parametrize("size", [1, 500])
def test_a_document_is_whole_before_its_body_ends(body: str, whole: bool, size: int) -> None:
    splitter, content = EventSplitter(), body.encode()
    for at in range(0, len(content), size):
        list(splitter.feed(content[at : at + size]))
        assert not splitter.whole or content[at + size :].strip() == b"" or not whole
    assert splitter.whole is whole


@pytest.mark.parametrize(
    "behind",
    [
        "\n\ndata: [DONE]\n\n",
        ": ping\n\n: ping\n\n",
        "\nevent: done\ndata: [DONE]\n\n",
        "\nid: 1\nretry: 5\n",
        "}\n<html>",
    ],
)
@pytest.mark.parametrize("indent", [None, 1])
@pytest.mark.parametrize("size", [1, 9, 5000])
def test_what_stands_behind_a_whole_document_changes_nothing(behind: str, indent: int | None, size: int) -> None:
    body = (json.dumps(WHOLE, indent=indent) + behind).encode()
    found, splitter = read(body, size), EventSplitter()
    assert (found.text, found.calls, found.reader.usage) == ("Reading.", [("read", "{}")], Usage(input=7, output=3))
    for at in range(0, len(body), size):
        list(splitter.feed(body[at : at + size]))
    assert splitter.whole
    refusal = json.dumps({"error": {"message": "no", "code": "context_length_exceeded"}}, indent=indent) + behind
    assert from_response(400, {}, refusal.encode()).code == "context_overflow"


def test_one_document_a_line() -> None:
    lines = [line.removeprefix(b"data: ") for line in HELLO.split(b"\n") if line]
    assert read(b"\n".join(lines)).text == "Hello"


@pytest.mark.parametrize("indent", [None, 1])
@pytest.mark.parametrize("size", [0, 1])
def test_a_list_of_pieces_is_read_to_its_end(indent: int | None, size: int) -> None:
    events = [json.loads(line[6:]) for line in HELLO.split(b"\n") if line.startswith(b"data: {")]
    body = json.dumps(events, indent=indent).encode()
    assert (read(body, size).text, read(body, size).reader.usage) == ("Hello", read(HELLO).reader.usage)
    with pytest.raises(ModelError, match="busy"):
        read(json.dumps([*events[:-1], {"error": {"message": "busy"}}], indent=indent).encode(), size)


@pytest.mark.parametrize("before", [b": PROCESSING\n\n", b"\xef\xbb\xbf:\r\n\r\n: a {\r\n\r\n", b": a\r: b\r"])
@pytest.mark.parametrize("size", [0, 1, 9])
def test_what_keeps_a_connection_open_may_stand_before_a_document(before: bytes, size: int) -> None:
    assert read(before + json.dumps(WHOLE, indent=1).encode(), size).text == "Reading."
    refusal = {"error": {"message": "no", "code": "context_length_exceeded"}}
    assert from_response(400, {}, before + json.dumps(refusal, indent=1).encode()).code == "context_overflow"


def test_a_message_at_the_end_of_a_stream_says_nothing_again() -> None:
    last = {"choices": [{"message": {"content": "Hello"}, "finish_reason": "stop"}]}
    body = HELLO.replace(b"data: [DONE]", b"data: " + json.dumps(last).encode())
    assert read(body).text == "Hello"


@pytest.mark.parametrize("delta", [{}, {"role": "assistant", "content": ""}])
def test_a_document_whose_choice_has_an_empty_delta_too_is_read(delta: dict[str, Any]) -> None:
    document = {"choices": [{"delta": delta, "message": {"content": "Hello"}, "finish_reason": "stop"}]}
    body = json.dumps(document).encode()
    assert read(body).text == read(b"data: " + body + b"\n\n").text == "Hello"
    splitter = EventSplitter()
    list(splitter.feed(body))
    assert splitter.whole


@pytest.mark.parametrize("event", ERRORS)
@pytest.mark.parametrize("form", ["data: {}\n\ndata: [DONE]\n\n", "{}", "event: error\ndata: {}\n\n"])
def test_an_error_is_found_wherever_it_stands(event: str, form: str) -> None:
    with pytest.raises(ModelError, match="it broke"):
        read(form.replace("{}", event, 1).encode())


@pytest.mark.parametrize("text", ["", "lo"])
@pytest.mark.parametrize(
    "error",
    [
        {"error": {"message": "it broke"}},
        {"base_resp": {"status_code": 1027, "status_msg": "it broke"}},
        {"x_groq": {"error": "it broke"}},
    ],
)
def test_an_error_beside_a_text_is_found(text: str, error: dict[str, Any]) -> None:
    event = {"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": None}], **error}
    with pytest.raises(ModelError, match="it broke"):
        read(stream({"content": "Hel"}, finish=None)[:-14] + f"data: {json.dumps(event)}\n\n".encode())


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ('{"reason": 1, "message": "engine dead"}', "engine dead"),
        ('"engine dead"', "engine dead"),
        ("engine dead", "engine dead"),
        ("{}", "no reason given"),
        ("null", "no reason given"),
    ],
)
def test_an_event_named_error_is_one_whatever_it_holds(data: str, words: str) -> None:
    with pytest.raises(ModelError, match=words) as caught:
        read(stream({"content": "Hel"}, finish=None)[:-14] + f"event: error\ndata: {data}\n\n".encode())
    assert caught.value.transient


@pytest.mark.parametrize("before", ["", stream({"content": "Hel"}, finish=None)[:-14].decode(), ": ping\n\n"])
@pytest.mark.parametrize("end", ["\n\n", "\n\ndata: [DONE]\n\n", ""])
@pytest.mark.parametrize("size", [0, 1])
def test_an_error_in_a_field_of_its_own_is_one(before: str, end: str, size: int) -> None:
    body = f'{before}error: {{"code": 400, "message": "the request exceeds the available context size"}}{end}'
    with pytest.raises(ModelError) as caught:
        read(body.encode(), size)
    assert caught.value.code == "context_overflow"


@pytest.mark.parametrize(
    "odd",
    ["data: null", 'data: "hello"', "data: 3", "event: ping\ndata: ping", 'data: {"choices": [], "logprob": NaN}',
     'data: data: {"choices": []}', "event: ping\ndata: {}"],
)  # fmt: skip
@pytest.mark.parametrize("size", [0, 1])
def test_an_odd_event_costs_nothing_of_the_answer(odd: str, size: int) -> None:
    assert read(odd.encode() + b"\n\n" + HELLO, size).text == "Hello"


@pytest.mark.parametrize("size", [0, 1])
def test_events_without_line_breaks_between_them_are_several(size: int) -> None:
    glued = HELLO.replace(b"\n\ndata: {", b"data: {")
    assert read(glued, size).text == "Hello"
    quoted = stream({"content": 'data: {"a": 1}data: {"b": 2}data: [DONE]'})
    assert read(quoted, size).text == 'data: {"a": 1}data: {"b": 2}data: [DONE]'


@pytest.mark.parametrize(
    ("end", "texts"),
    [
        (b"data:", [b'{"a": 1}']),
        (b"data: \t", [b'{"a": 1}']),
        (b"data: x", [b'{"a": 1}data: x']),
        (b'data: {"a": 1}data: x', [b'{"a": 1}', b'{"a": 1}data: x']),
    ],
)
def test_what_is_glued_to_an_event_and_is_none_ends(end: bytes, texts: list[bytes]) -> None:
    assert list(EventSplitter().feed(b'data: {"a": 1}' + end + b"\n\n")) == texts


LATE = [
    'data: {"error": {"message": "boom", "code": 500}}',
    'event: error\ndata: "boom"',
    "event: error\ndata: {}",
    'error: {"code": 500, "message": "boom"}',
    'data: {"choices": [{"delta": {}, "error": {"message": "boom"}, "finish_reason": "error"}]}',
    'data: {"choices": [], "base_resp": {"status_code": 1013, "status_msg": "boom"}}',
]
"""Errors, some of the usage that was still to be counted."""


@pytest.mark.parametrize("error", LATE)
@pytest.mark.parametrize("end", ["\n\n", "\n\ndata: [DONE]\n\n"])
def test_an_error_behind_the_end_of_an_answer_changes_nothing(error: str, end: str) -> None:
    late = f"{error}{end}".encode()
    assert read(HELLO + late).text == "Hello"
    assert read(HELLO[:-14] + late).text == "Hello"
    called = stream(call(index=0, id="x", name="read", arguments="{}"), finish="tool_calls")[:-14]
    assert read(called + late).calls == [("read", "{}")]
    written = stream({"content": "<tool_call>read</tool_call>"})[:-14]
    assert read(written + late).calls == [("read", "{}")]


@pytest.mark.parametrize("error", LATE)
@pytest.mark.parametrize(
    "before", [stream(), stream({"content": "Hel"}, finish=None), stream({"content": "Hel"}, finish="error")]
)
def test_an_error_in_place_of_an_answer_or_its_end_is_one(error: str, before: bytes) -> None:
    with pytest.raises(ModelError, match=r"boom|no reason given"):
        read(before[:-14] + f"{error}\n\n".encode())


@pytest.mark.parametrize("member", ["data", "result", "output"])
def test_an_answer_inside_a_gateways_own_envelope_is_read(member: str) -> None:
    usage = {"prompt_tokens": 5, "completion_tokens": 2}
    answer = {"choices": [{"message": {"content": "hi"}, "finish_reason": "stop"}], "usage": usage}
    found = read(json.dumps({"code": 0, "message": "ok", "errors": [], member: answer}).encode())
    assert (found.text, found.reader.usage) == ("hi", Usage(input=5, output=2))


@pytest.mark.parametrize("form", ["%s", "data: %s\n\ndata: [DONE]\n\n"])
def test_the_text_of_a_completion_without_a_chat_is_text(form: str) -> None:
    assert read((form % '{"choices": [{"text": "hi", "finish_reason": "stop"}]}').encode()).text == "hi"


def test_an_odd_end_and_an_odd_byte_cost_nothing_of_the_answer() -> None:
    assert read(HELLO.replace(b"[DONE]", b'"[DONE]"')).reader.done
    assert read(HELLO.replace(b"data: {", b"data: data: {")).text == "Hello"
    assert read(HELLO.replace(b"Hel", b"Hel\xff")).text == "Hel\ufffdlo"


@pytest.mark.parametrize(
    "event", ['{"type": "ping"}', '{"choices": []}', '{"choices": null}', '{"base_resp": {"status_code": 0}}']
)
def test_what_says_nothing_is_passed_over(event: str) -> None:
    assert read(f"data: {event}\n\n".encode() + HELLO).text == "Hello"


@pytest.mark.parametrize(
    ("content", "text", "reasoning"),
    [
        ([{"type": "text", "text": "4"}], "4", ""),
        ({"type": "text", "text": "4"}, "4", ""),
        (["4"], "4", ""),
        ([{"type": "output_text", "text": "4"}], "4", ""),
        ([{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "4"}], "4", "hm"),
        ([{"type": "thinking", "thinking": [{"type": "text", "text": "h"}, {"text": "m"}]}, "4"], "4", "hm"),
        ([{"type": "reasoning", "text": "hm"}, {"type": "text", "text": {"value": "4"}}], "4", "hm"),
        ([{"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]}, {"text": "4"}], "4", "hm"),
        *(
            ([{"type": kind, "text": "hm"}, "4"], "4", "hm")
            for kind in ("reasoning.text", "reasoning_delta", "analysis")
        ),
        ([{"type": "reasoning", "reasoning_content": "hm"}, "4"], "4", "hm"),
        ([{"text": "hm", "thought": True}, {"text": "4"}], "4", "hm"),
        ({"parts": [{"text": "4"}]}, "4", ""),
        ([{"type": "image_url", "image_url": {"url": "x"}}, {"type": "text", "text": "4"}], "4", ""),
        ([None, 3, {"type": "odd"}, [], "4"], "4", ""),
        ([{"type": ["text"], "text": "4"}, {"type": {}, "thinking": "hm"}], "4", "hm"),
    ],
)
def test_content_in_any_shape(content: Any, text: str, reasoning: str) -> None:
    found = read(stream({"content": content}))
    assert (found.text, found.reasoning) == (text, reasoning)


@pytest.mark.parametrize(
    "delta",
    [
        {"reasoning_content": "hm"},
        {"reasoning": "hm"},
        {"reasoning": "hm", "reasoning_content": "hm"},
        {"reasoning": {"text": "hm"}},
        {"reasoning_content": [{"type": "text", "text": "hm"}]},
        {"thinking": "hm"},
        {"reasoning_text": "hm"},
        {"reasoning": "hm", "reasoning_details": [{"type": "reasoning.text", "text": "hm"}]},
        {"reasoning_details": [{"type": "reasoning.text", "text": "hm", "index": 0}]},
        {"thinking_blocks": [{"type": "thinking", "thinking": "hm", "signature": "s"}]},
    ],
)
def test_reasoning_under_any_name_once(delta: dict[str, Any]) -> None:
    found = read(stream(delta, {"content": "4"}))
    assert (found.reasoning, found.text) == ("hm", "4")


def test_only_what_says_something_is_progress() -> None:
    """By that a finished answer whose provider goes on sending empty events comes to its end."""
    reader = read(HELLO).reader
    before = reader.progress
    for delta in ({}, {"content": ""}, {"content": None}, {"role": "assistant", "content": None}):
        list(reader.feed({"choices": [{"delta": delta}]}))
    assert reader.progress == before
    list(reader.feed({"choices": [{"delta": {"content": "more"}}]}))
    assert reader.progress == before + 1


def test_a_refusal_is_what_the_model_says() -> None:
    assert read(stream({"refusal": "I will not."})).text == "I will not."


def test_members_of_the_message_are_kept_together() -> None:
    found = read(
        stream(
            {"reasoning_details": [{"type": "reasoning.text", "text": "Let ", "index": 0}]},
            {"reasoning_details": [{"type": "reasoning.text", "text": "me", "index": 0, "signature": None}]},
            {"reasoning_details": [{"type": "reasoning.text", "signature": "sig", "index": 0}]},
            {"reasoning_details": [{"type": "reasoning.encrypted", "data": "x", "id": "r1", "index": 1}], "odd": None},
            {"content": "4", "extra_content": {"google": {"thought_signature": "s"}}},
        )
    )
    assert found.reader.fields == {
        "reasoning_details": [
            {"type": "reasoning.text", "text": "Let me", "index": 0, "signature": "sig"},
            {"type": "reasoning.encrypted", "data": "x", "id": "r1", "index": 1},
        ],
        "extra_content": {"google": {"thought_signature": "s"}},
    }


def test_what_is_kept_has_a_limit() -> None:
    found = read(stream({"content": "4", "small": "s", "large": "x" * 70_000}))
    assert found.reader.fields == {"small": "s"}


@pytest.mark.parametrize(
    ("finish", "stop"),
    [
        ("end_turn", "stop"),
        ("STOP", "stop"),
        ("eos", "stop"),
        ("max_tokens", "length"),
        ("MAX_TOKENS", "length"),
        ("model_length", "length"),
        ("max_length", "length"),
        ("context_length", "length"),
        ("model_context_window_exceeded", "length"),
        ("sensitive", "content-filter"),
        ("safety", "content-filter"),
        ("ERROR_TOXIC", "content-filter"),
        ("IMAGE_SAFETY", "content-filter"),
        ("content_filter: PROHIBITED_CONTENT", "content-filter"),
        ("content_policy", "content-filter"),
        ("prompt_filtered", "content-filter"),
        ("MODEL_ARMOR", "content-filter"),
        ("policy_violation", "content-filter"),
        ("FinishReason.MAX_TOKENS", "length"),
        ("token_limit", "length"),
        ("time_limit", "length"),
        ("ERROR_LIMIT", "length"),
        ("tool_use", "tool-calls"),
        ("banana", "other"),
        ("banana: split", "other"),
        (None, "stop"),
    ],
)
def test_finish_reasons_are_read_by_their_meaning(finish: str | None, stop: str) -> None:
    assert read(stream({"content": "4"}, finish=finish)).reader.stop_reason == stop


def test_a_later_stop_does_not_take_back_that_an_answer_was_cut() -> None:
    for first, second, stop in (
        ("length", "stop", "length"),
        ("content_filter", "stop", "content-filter"),
        ("stop", "length", "length"),
        ("max_tokens", "end_turn", "length"),
        ("tool_calls", "stop", "stop"),
        ("stop", "stop", "stop"),
        ("length", "content_filter", "content-filter"),
        ("model_length", "banana", "length"),
    ):
        body = stream({"content": "4"}, finish=first)[:-14] + stream(finish=second)
        assert read(body).reader.stop_reason == stop, (first, second)
        tap = UsageFilter(None, hidden=False)
        tap.feed(body)
        assert tap.reason == read(body).reader.finish_reason
    with pytest.raises(ModelError, match="network_error"):
        read(stream({"content": "4"}, finish="network_error")[:-14] + stream(finish="stop"))


SENTENCE = "The answer to all of it is forty-two, as it was said."


def again(text: Any, *before: dict[str, Any], finish: str | None = "stop") -> bytes:
    """A stream whose last piece says this text again."""
    last = {"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": finish}]}
    return stream(*before, finish=None)[:-14] + f"data: {json.dumps(last)}\n\n".encode() + b"data: [DONE]\n\n"


@pytest.mark.parametrize(
    "before",
    [
        [{"content": SENTENCE}],
        [{"content": letter} for letter in SENTENCE],
        [{"role": "assistant", "content": ""}, {"content": SENTENCE[:9]}, {"content": SENTENCE[9:]}],
        [{"reasoning_content": "hm"}, {"content": SENTENCE[:20]}, {"content": SENTENCE[20:]}],
        [{"content": "<think>hm</think>"}, {"content": SENTENCE}],
    ],
)
def test_a_last_piece_that_says_all_of_the_text_again_is_said_once(before: list[dict[str, Any]]) -> None:
    assert read(again(SENTENCE, *before)).text == SENTENCE
    assert read(again(SENTENCE, *before, finish="length")).text == SENTENCE
    assert read(again(SENTENCE, *before, finish=None)).text == SENTENCE * 2
    assert read(again(SENTENCE[5:], *before)).text == SENTENCE + SENTENCE[5:]


def test_a_written_call_that_is_said_again_is_one() -> None:
    said = '<tool_call>{"name": "read", "arguments": {"path": "a"}}</tool_call>'
    assert read(again(said, {"content": said[:30]}, {"content": said[30:]})).calls == [("read", '{"path": "a"}')]


def test_a_short_piece_is_said_as_often_as_it_comes() -> None:
    assert read(again("ha", {"content": "ha"})).text == "haha"


@pytest.mark.parametrize("word", ["", "null", "None"])
def test_a_word_for_no_finish_reason_yet_ends_nothing(word: str) -> None:
    """Behind an end little is waited for, so that the answer would be cut at the model's next pause."""
    reader = CompletionReader(1)
    list(reader.feed({"choices": [{"delta": {"content": "4"}, "finish_reason": word}]}))
    assert (reader.complete, reader.stop_reason) == (False, "stop")


@pytest.mark.parametrize(
    "finish",
    [
        *("error", "network_error", "abort", "insufficient_system_resource"),
        *("MALFORMED_FUNCTION_CALL", "malformed_tool_use", "malformed_model_output"),
        *("function_call_filter: MALFORMED_FUNCTION_CALL", "error: banana", "MISSING_THOUGHT_SIGNATURE"),
        *("TOO_MANY_TOOL_CALLS", "upstream_error", "server_cancelled", "provider_error", "model_error"),
        *("overloaded", "rate_limit", "service_unavailable"),
        *("engine_overloaded", "rate_limit_exceeded", "connection_error", "USER_CANCEL", "out_of_memory", "terminated"),
    ],
)
@pytest.mark.parametrize("delta", [{"content": "The first"}, {}])
def test_a_finish_reason_that_means_a_failure_is_one(finish: str, delta: dict[str, Any]) -> None:
    with pytest.raises(ModelError, match=finish) as caught:
        read(stream(delta, finish=finish))
    assert caught.value.transient


@pytest.mark.parametrize(
    "finish", ["model_context_window_exceeded", "context_length", "ERROR_LIMIT", "max_input_length"]
)
def test_a_full_window_without_an_answer_is_an_overflow(finish: str) -> None:
    with pytest.raises(ModelError) as caught:
        read(stream(finish=finish))
    assert caught.value.code == "context_overflow"


@pytest.mark.parametrize(
    "last", [{"completion_tokens": 7}, {"prompt_tokens": 0, "completion_tokens": 7, "total_tokens": 7}]
)
def test_prompt_and_answer_may_be_reported_one_after_the_other(last: dict[str, int]) -> None:
    first = {
        "prompt_tokens": 5,
        "completion_tokens": 1,
        "total_tokens": 6,
        "prompt_tokens_details": {"cached_tokens": 2},
    }
    reports = [b"data: " + json.dumps({"choices": [], "usage": usage}).encode() + b"\n\n" for usage in (first, last)]
    reader = read(reports[0] + HELLO.replace(b"data: [DONE]", reports[1] + b"data: [DONE]")).reader
    assert reader.usage == Usage(input=3, output=7, cache_read=2)


def test_a_report_without_a_count_that_is_known_is_none() -> None:
    report = {"choices": [], "usage": {"billed_units": {"input_tokens": 5, "output_tokens": 2}}}
    assert read(HELLO.replace(b"data: [DONE]", b"data: " + json.dumps(report).encode())).reader.report is None


@pytest.mark.parametrize(
    "place",
    [
        {"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 2}},
        {"choices": [{"delta": {}, "usage": {"prompt_tokens": 5, "completion_tokens": 2}}]},
        {"choices": [{"delta": {"usage": {"prompt_tokens": 5, "completion_tokens": 2}}}]},
        {"choices": [], "x_groq": {"usage": {"prompt_tokens": 5, "completion_tokens": 2}}},
        {"usage": {"input_tokens": 5, "output_tokens": 2}},
    ],
)
def test_usage_counts_where_it_stands_and_nothing_is_none(place: dict[str, Any]) -> None:
    nothing = {"choices": [], "usage": {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}}
    events = b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in (place, nothing))
    reader = read(HELLO.replace(b"data: [DONE]\n\n", events)).reader
    assert (reader.usage, reader.report is not None) == (Usage(input=5, output=2), True)
    assert read(HELLO.replace(b"data: [DONE]\n\n", b"data: " + json.dumps(nothing).encode())).reader.report is None


@pytest.mark.parametrize(
    ("coding", "compress"),
    [
        ("gzip", gzip.compress),
        ("gzip", lambda body: gzip.compress(body[:99]) + gzip.compress(body[99:]) + b"\n\n"),
        ("x-gzip", gzip.compress),
        ("deflate", zlib.compress),
        ("deflate", lambda body: zlib.compress(body, wbits=-15)),
        *((coding, gzip.compress) for coding in ("", "identity", "deflate")),
        *((coding, bytes) for coding in ("gzip", "x-gzip")),
        ("identity", bytes),
        ("none", bytes),
        ("UTF-8", bytes),
        ("", bytes),
    ],
)  # fmt: skip
def test_a_compressed_body_is_read(coding: str, compress: Any) -> None:
    body = compress(HELLO * 100)
    for size in (1, len(body)):
        plain = Decompressor(coding)
        assert (
            b"".join(out for at in range(0, len(body), size) for out in plain.feed(body[at : at + size])) == HELLO * 100
        )


def test_a_body_that_cannot_be_read_is_refused_in_plain_words() -> None:
    with pytest.raises(ModelError, match="compresses its answer as br") as caught:
        Decompressor("br")
    assert not caught.value.transient
    with pytest.raises(ModelError, match="gzip answer cannot be read"):
        list(Decompressor("gzip").feed(b"\x1fnot gzip"))


def test_a_line_has_a_limit() -> None:
    with pytest.raises(ModelError, match="a line of more than"):
        list(EventSplitter().feed(b"data: " + b"x" * 9 * 1024 * 1024))
