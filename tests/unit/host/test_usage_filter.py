"""The tap in an event stream: what passes, what is read, what is changed."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agent_common.errors import ModelError
from agent_common.protocol import Pricing, Usage
from agent_host.proxy.calls.usage_filter import UsageFilter
from tests.unit.completions.support import ERRORS, read

PRICES = Pricing(input=1_000_000, output=2_000_000)
TEXT = b'data: {"choices":[{"delta":{"content":"hi"}}],"usage":null}\n\n'
LAST = b'data: {"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2}}\n\n'
DONE = b"data: [DONE]\n\n"


def run(
    stream: bytes, size: int, *, pricing: Pricing | None = None, hidden: bool = False
) -> tuple[bytes, Usage | None]:
    tap = UsageFilter(pricing, hidden=hidden)
    passed = b"".join(tap.feed(stream[start : start + size]) for start in range(0, len(stream), size))
    return passed + tap.finish(), tap.usage


@pytest.mark.parametrize("size", [1, 7, 10_000])
def test_an_unpriced_stream_passes_untouched(size: int) -> None:
    stream = TEXT + LAST + DONE
    assert run(stream, size) == (stream, Usage(input=3, output=2))


@pytest.mark.parametrize("size", [1, 7, 10_000])
def test_a_price_is_added_to_the_usage_and_nothing_else_changes(size: int) -> None:
    passed, usage = run(TEXT + LAST + DONE, size, pricing=PRICES)
    assert passed.startswith(TEXT)
    assert passed.endswith(b"\n\n" + DONE)
    event = json.loads(passed[len(TEXT) :].split(b"\n")[0].removeprefix(b"data: "))
    assert event == {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 2, "cost_usd": 7.0}}
    assert usage == Usage(input=3, output=2, cost_usd=7.0)


@pytest.mark.parametrize("size", [1, 10_000])
def test_prompt_and_answer_may_be_reported_one_after_the_other(size: int) -> None:
    prompt = b'data: {"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":0}}\n\n'
    answer = b'data: {"choices":[],"usage":{"completion_tokens":2}}\n\n'
    assert run(prompt + TEXT + answer + DONE, size)[1] == Usage(input=3, output=2)


@pytest.mark.parametrize("size", [1, 10_000])
def test_a_cost_of_the_provider_is_taken_out(size: int) -> None:
    theirs = LAST.replace(b'"completion_tokens"', b'"cost_usd":0.0,"completion_tokens"')
    assert theirs != LAST
    passed, usage = run(TEXT + theirs + DONE, size)
    assert b"cost_usd" not in passed
    assert usage == Usage(input=3, output=2)


@pytest.mark.parametrize("size", [1, 10_000])
def test_usage_that_nobody_asked_for_is_taken_out(size: int) -> None:
    passed, usage = run(TEXT + LAST + DONE, size, hidden=True)
    assert b'"usage":{' not in passed
    assert passed == TEXT + b"\n" + DONE
    assert usage == Usage(input=3, output=2)


def test_hidden_usage_beside_a_choice_stays() -> None:
    event = b'data: {"choices":[{"delta":{}}],"usage":{"prompt_tokens":3}}\n\n'
    assert run(event, 10, hidden=True) == (event, Usage(input=3))


def test_the_last_of_running_totals_counts() -> None:
    events = [{"choices": [{}], "usage": {"completion_tokens": count}} for count in (1, 2, 3)]
    stream = b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in events)
    assert run(stream, 11)[1] == Usage(output=3)


def test_a_whole_line_is_passed_at_once_and_half_a_one_is_kept() -> None:
    tap = UsageFilter(None, hidden=False)
    assert tap.feed(TEXT + b"data: {") == TEXT
    assert tap.feed(b"}\n") == b"data: {}\n"


def test_a_stream_that_ends_without_a_line_break_loses_nothing() -> None:
    stream = (TEXT + LAST).rstrip()
    assert run(stream, 9) == (stream, Usage(input=3, output=2))


@pytest.mark.parametrize(
    "line",
    [
        b': a comment about "usage": {1}\n',
        b'data: {"usage": {broken\n',
        b'data: {"choices":[{"delta":{"content":"the \\"usage\\": {}"}}]}\n',
        b'data: {"inner": {"usage": {"prompt_tokens": 1}}}\n',
        b'data: ["usage", {"usage": {}}]\n',
        b'data: {"usage": {}}\n',
    ],
)
def test_what_only_looks_like_usage_passes(line: bytes) -> None:
    assert run(line, 10_000, pricing=PRICES, hidden=True) == (line, None)


def test_crlf_is_a_line_break_too() -> None:
    stream: Any = LAST.replace(b"\n", b"\r\n")
    assert run(stream, 8) == (stream, Usage(input=3, output=2))


@pytest.mark.parametrize(
    ("line", "complete"),
    [
        (b'data: {"choices":[{"finish_reason":"stop"}]}\n', True),
        (b"data: [DONE]\n", True),
        (b'data: {"choices":[{"finish_reason":null}]}\n', False),
        (b'data: {"choices":[{"finish_reason":""}]}\n', False),
        (b'data: {"choices":[{"finish_reason": "null"}]}\n', False),
        (b'data: {"choices":[{"finish_reason": "None"}]}\n', False),
    ],
)
def test_an_answer_ends_with_a_finish_reason_and_not_with_a_word_for_none(line: bytes, complete: bool) -> None:
    tap = UsageFilter(None, hidden=False)
    tap.feed(line)
    assert tap.complete is complete


@pytest.mark.parametrize("event", ['data: {"error": %s}', "event: error\ndata: %s", "error: %s"])
@pytest.mark.parametrize("size", [1, 10_000])
def test_an_error_is_noted_in_whichever_field_it_comes(event: str, size: int) -> None:
    error = '{"code": 400, "message": "the request exceeds the available context size"}'
    stream = TEXT + (event % error).encode() + b"\n\n" + DONE
    tap = UsageFilter(None, hidden=False)
    assert b"".join(tap.feed(stream[at : at + size]) for at in range(0, len(stream), size)) == stream
    assert tap.error is not None
    assert tap.error.code == "context_overflow"


@pytest.mark.parametrize(
    ("named", "failed"), [(b"event: error\n\n", False), (b'event: error\ndata: {"reason": 3}\n\n', True)]
)
@pytest.mark.parametrize("size", [1, 10_000])
def test_the_name_of_an_event_is_that_of_its_data_and_of_nothing_behind_it(
    named: bytes, failed: bool, size: int
) -> None:
    stream, tap = named + LAST, UsageFilter(None, hidden=False)
    for at in range(0, len(stream), size):
        tap.feed(stream[at : at + size])
    assert (tap.error is not None, tap.usage) == (failed, Usage(input=3, output=2))


def test_what_says_nothing_behind_the_end_is_not_waited_for() -> None:
    tap, said = UsageFilter(None, hidden=False), []
    stop = b'data: {"choices":[{"delta":{},"finish_reason":"stop"}]}\n\n'
    empty = b'data: {"choices":[{"delta":{"role":"assistant","content":null}}]}\n\n'
    for piece in (TEXT, stop, b'data: {"choices":[]}\n\n', empty, b": ping\n\n", TEXT):
        tap.feed(piece)
        said.append(tap.answered)
    assert said == [0, 0, 0, 0, 0, 1]


REPORT = b'"usage":{"prompt_tokens":3,"completion_tokens":2}}'
ENDS = [
    b'data: {"choices":[{"delta":{"content":"x"}}]}data: {"choices":[],' + REPORT,
    b'data: data: {"choices":[],' + REPORT,
    b'{"choices":[],' + REPORT,
    b'data: {"id":"a","id":"b","choices":[],' + REPORT,
    b'data: {"choices":[],"logprobs":NaN,' + REPORT,
    b'data: {"id":"a\tb\xff","choices":[],' + REPORT,
    b'data: {"choices":[],\ndata: ' + REPORT,
    b'data: {\ndata: "choices": [],\ndata: ' + REPORT.replace(b"{", b"{\ndata: "),
    b'event: usage\ndata: [{"choices":[],' + REPORT + b"]",
    b'data: {"data":{"choices":[],' + REPORT + b"}",
    b'data: {"choices":[],"x_groq":{"id":"a",' + REPORT + b"}",
]


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("size", [1, 7, 10_000])
def test_usage_is_what_the_client_reads(end: bytes, size: int) -> None:
    for stream in (TEXT + end + b"\n\n" + DONE, TEXT + end, (TEXT + end + b"\n\n").replace(b"\n", b"\r\n")):
        assert run(stream, size) == (stream, Usage(input=3, output=2))
        assert read(stream).reader.usage == Usage(input=3, output=2)


@pytest.mark.parametrize("before", [b"\xef\xbb\xbf", b" ", b": ping\n\n \n", b"\xef\xbb\xbf\n: ping\n\n"])
@pytest.mark.parametrize("size", [1, 10_000])
def test_usage_in_the_first_event_is_read_behind_what_stands_before_it(before: bytes, size: int) -> None:
    assert run(before + LAST + TEXT, size) == (before + LAST + TEXT, Usage(input=3, output=2))


def test_a_document_behind_comments_is_read() -> None:
    body = b': ping\n\n{"choices":\n[{"message":{"content":"hi"},"finish_reason":"stop"}],\n' + REPORT
    assert run(body, 5) == (body, read(body).reader.usage) == (body, Usage(input=3, output=2))


@pytest.mark.parametrize(
    "error",
    [
        *ERRORS,
        '{"throttlingException": {"message": "it broke"}}',
        '{"message": "it broke"}',
        '{"error": {"message": "it broke\t", "code": 429}}',
        '{"choices": [], "detail": "it broke"}',
        '{"error": ["it broke"]}',
        '{"choices": [{"delta": {}}], "x_groq": {"error": "it broke"}}',
    ],
)
@pytest.mark.parametrize("form", ["data: {}", "event: error\ndata: {}", 'data: {"id":"a"}data: {}', "{}", "error: {}"])
@pytest.mark.parametrize("size", [1, 10_000])
def test_an_error_is_what_the_client_reads(error: str, form: str, size: int) -> None:
    stream = TEXT + form.replace("{}", error).encode() + b"\n\n"
    tap = UsageFilter(None, hidden=False)
    assert b"".join(tap.feed(stream[at : at + size]) for at in range(0, len(stream), size)) == stream
    said = (tap.error.code, tap.error.message) if tap.error else None
    assert said == error_of_client(stream)
    assert said is not None or (error.startswith("[") and "data:" not in form)


def error_of_client(stream: bytes) -> tuple[str, str] | None:
    try:
        read(stream)
    except ModelError as error:
        return error.code, error.message
    return None
