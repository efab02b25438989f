"""Of the messages in a chat request, the last one is kept, whatever the others are and however the bytes come."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_runtime.api.body_limits import MESSAGE_BYTES
from agent_runtime.api.last_message import MAX_TOKENS, SHORT_BODY, LastMessageReader, MessageTooLarge, TooManyTokens

LIMIT = 1 << 20
text = st.text(alphabet=st.sampled_from('ab"\\[]{},: é\n'), max_size=8)
value = st.recursive(
    st.none() | st.booleans() | st.integers() | text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=8,
)
message = st.dictionaries(text, value, max_size=4)


def read(raw: bytes, size: int, limit: int = LIMIT, short: int = 0) -> LastMessageReader:
    reader, grown = LastMessageReader(limit, short), 0
    for at in range(0, len(raw), size):
        grown += reader.feed(raw[at : at + size])
    grown += reader.finish()
    assert grown == len(reader.body)
    return reader


@given(
    others=st.dictionaries(text.filter(lambda name: name != "messages"), value, max_size=3),
    messages=st.lists(message, max_size=4),
    size=st.sampled_from([1, 2, 5, 64, 5000]),
    escaped=st.booleans(),
    indent=st.sampled_from([None, 1]),
    first=st.booleans(),
    short=st.sampled_from([0, 50, SHORT_BODY]),
)
def test_all_but_the_old_messages_is_kept(
    others: dict[str, Any], messages: list[Any], size: int, escaped: bool, indent: int | None, first: bool, short: int
) -> None:
    body = {"messages": messages, **others} if first else {**others, "messages": messages}
    raw = json.dumps(body, ensure_ascii=escaped, indent=indent).encode()
    assert json.loads(bytes(read(raw, size, short=short).body)) == {**body, "messages": messages[-1:]}


RESULT = {"type": "tool-read", "toolCallId": "c1", "state": "output-available", "output": {"deep": [["x" * 500]]}}
APPROVED = {**RESULT, "state": "approval-responded", "approval": {"id": "a", "approved": True}}
CHOSEN = {**RESULT, "type": "tool-question", "output": [["blue"]]}
TOLD = {"type": "data-x", "data": '{"type":"tool-read", "parts": [1, 2]', "parts": [RESULT]}
LEFT_OUT = {"type": "tool"}


@given(
    parts=st.lists(st.sampled_from([RESULT, APPROVED, CHOSEN, {**CHOSEN, "type": "dynamic-tool"}, TOLD]), max_size=6),
    old=st.lists(st.just({"role": "assistant", "parts": [RESULT, APPROVED]}), max_size=2),
    size=st.sampled_from([1, 2, 5, 64, 5000]),
    indent=st.sampled_from([None, 1]),
)
def test_calls_that_answer_nothing_are_left_out(
    parts: list[dict[str, Any]], old: list[Any], size: int, indent: int | None
) -> None:
    raw = json.dumps({"messages": [*old, {"parts": parts, "role": "assistant"}]}, indent=indent).encode()
    [last] = json.loads(bytes(read(raw, size).body))["messages"]
    calls = [RESULT, {**CHOSEN, "type": "dynamic-tool"}]
    assert last == {"parts": [LEFT_OUT if part in calls else part for part in parts], "role": "assistant"}


def test_results_do_not_count_towards_the_size_of_a_message() -> None:
    raw = json.dumps({"messages": [{"parts": [RESULT] * 100 + [APPROVED] + [RESULT] * 100}]}).encode()
    [last] = json.loads(bytes(read(raw, 1000, 8_000).body))["messages"]
    assert last["parts"].count(LEFT_OUT) == 200
    assert APPROVED in last["parts"]


@given(body=value, size=st.sampled_from([1, 3, 5000]), short=st.sampled_from([0, SHORT_BODY]))
def test_any_other_document_stays_as_it_is(body: Any, size: int, short: int) -> None:
    raw = json.dumps({"message": body, "nested": {"messages": [1, 2]}}).encode()
    assert bytes(read(raw, size, short=short).body) == raw


@pytest.mark.parametrize(
    ("sizes", "limit", "most"),
    [([100_000] * 100, LIMIT, 200_000), ([5 << 20, 9 << 19, 100], MESSAGE_BYTES, 6 << 20)],
    ids=["many", "large"],
)
def test_old_messages_take_no_memory(sizes: list[int], limit: int, most: int) -> None:
    """Not even two of them at a time."""
    old = [{"id": str(at), "parts": [{"type": "text", "text": "x" * size}]} for at, size in enumerate(sizes)]
    raw = json.dumps({"id": "c", "messages": [*old, {"id": "last"}]}).encode()
    reader = LastMessageReader(limit)
    seen = 0
    for at in range(0, len(raw), 65536):
        reader.feed(raw[at : at + 65536])
        seen = max(seen, len(reader.body))
    assert seen < most
    assert json.loads(bytes(reader.body)) == {"id": "c", "messages": [{"id": "last"}]}


def test_a_message_that_is_too_large_counts_only_if_it_is_the_last() -> None:
    large = {"text": "x" * 50_000}
    raw = json.dumps({"messages": [large, {"a": 1}, large, {"id": "last"}], "id": "c"}).encode()
    assert json.loads(bytes(read(raw, 1000, 10_000).body)) == {"messages": [{"id": "last"}], "id": "c"}
    with pytest.raises(MessageTooLarge):
        read(json.dumps({"messages": [{"a": 1}, large]}).encode(), 1000, 10_000)


@pytest.mark.slow  # measures a duration
def test_the_cost_is_bounded() -> None:
    reader = LastMessageReader(LIMIT)
    reader.feed(b'{"messages":[[')
    piece = b"," * 100_000
    for _ in range(MAX_TOKENS // len(piece) - 1):
        reader.feed(piece)
    with pytest.raises(TooManyTokens):
        reader.feed(piece)


@pytest.mark.parametrize(
    "raw", [b"", b"{", b"]]]]", b'{"messages":[', b'{"messages":[}', b'{"messages":7}', b'"', b"\\"]
)
def test_what_is_no_json_is_left_to_the_parser(raw: bytes) -> None:
    assert len(read(raw, 2).body) <= len(raw)
