"""Texts of a model that would cost much more to read than their bytes say are refused before they are parsed."""

from __future__ import annotations

import time
from contextlib import suppress

import pytest

from agent_common.completions.calls.arguments import ARGUMENT_LIMITS, MAX_MENDED, mend_arguments
from agent_common.completions.calls.written import NotCalls, read_calls_at_end, read_written_calls
from agent_common.completions.damaged_json import EVENT_LIMITS
from agent_common.completions.reader import read_event
from agent_common.completions.whole_object import WholeObject
from agent_common.errors import ModelError

MANY = ARGUMENT_LIMITS.max_values + 1


def objects(count: int) -> str:
    return "[" + ",".join(["{}"] * count) + "]"


def test_arguments_with_too_many_values_are_not_mended() -> None:
    assert mend_arguments('```json\n{"a": [{}]}\n```') == {"a": [{}]}
    assert mend_arguments(f'```json\n{{"a": {objects(MANY)}}}\n```') is None


def test_long_arguments_are_not_mended() -> None:
    frame = '```json\n{"a": "%s"}\n```'
    most = MAX_MENDED - len(frame % "")
    assert mend_arguments(frame % ("x" * most)) == {"a": "x" * most}
    assert mend_arguments(frame % ("x" * (most + 1))) is None
    assert mend_arguments(frame % ("\u00e9" * (most // 2 + 1))) is None
    assert MAX_MENDED <= 256 * 1024


def test_written_calls_with_too_many_values_are_text() -> None:
    call = '<tool_call>{{"name": "read", "arguments": {{"a": {}}}}}</tool_call>'
    assert [name for name, _ in read_written_calls(call.format("[{}]"))] == ["read"]
    with pytest.raises(NotCalls, match="more than"):
        read_written_calls(call.format(objects(MANY)))


def test_an_answer_with_too_many_values_is_refused_as_a_whole() -> None:
    with pytest.raises(ModelError, match="more than"):
        read_event(f'{{"a": {objects(EVENT_LIMITS.max_values + 1)}}}'.encode())


@pytest.mark.parametrize(("count", "closed"), [(1_000, True), (300_000, False)])
def test_the_brackets_of_a_text_that_no_reader_takes_are_not_counted_to_its_end(count: int, closed: bool) -> None:
    whole = WholeObject("[")
    whole.feed(objects(count))
    assert whole.closed is closed


@pytest.mark.parametrize(
    "part",
    [
        "[a()]",
        "[a(b=",
        "court\n",
        "call:a{",
        "[a(b='",
        "call\n<invoke name=",
        "<\uff5ctool_a",
        "analysis to=functions.",
    ],
)
def test_written_calls_are_read_in_a_time_that_grows_with_their_length(part: str) -> None:
    def seconds(length: int) -> float:
        text = "<tool_call>" + (part * (length // len(part)))
        began = time.thread_time()
        with suppress(NotCalls):
            read_written_calls(text)
        read_calls_at_end(text)
        return time.thread_time() - began

    assert seconds(256 * 1024) < 40 * seconds(32 * 1024) + 0.5
