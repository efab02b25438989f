"""An answer costs what it weighs, in however many pieces its provider sends it.

Put together or parsed again with each piece, these answers of at most 4 MiB would take minutes to hours.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from agent_common.completions import CompletionReader, EventSplitter
from agent_common.completions.kept import MAX_MERGED_BYTES
from agent_common.errors import ModelError

MOST_SECONDS = 20.0
"""Of the processor, so that a busy machine makes no difference. It takes about one."""
PIECES = 60_000


def feed_all(take: Callable[[Any], Any], pieces: Iterable[Any]) -> None:
    """Feed pieces, and fail as soon as that has taken too long."""
    began = time.process_time()
    for at, piece in enumerate(pieces):
        take(piece)
        assert at % 500 or time.process_time() - began < MOST_SECONDS, f"it has become slow at piece {at}"


def delta(**members: Any) -> dict[str, Any]:
    return {"choices": [{"delta": members, "finish_reason": None}]}


def called(arguments: str, **members: Any) -> dict[str, Any]:
    return delta(tool_calls=[{"index": 0, **members, "function": {"name": "bash", "arguments": arguments}}])


@pytest.mark.slow  # measures time
@pytest.mark.parametrize("piece", ["}}}}", "\\", '"', "[{"])
def test_arguments_of_a_call_that_is_named_with_each_piece(piece: str) -> None:
    reader = CompletionReader(1)
    feed_all(lambda event: list(reader.feed(event)), [called('{"a":"', id="a"), *[called(piece)] * PIECES])
    list(reader.finish())


@pytest.mark.slow  # measures time
def test_arguments_that_are_placeholders_again_and_again() -> None:
    reader = CompletionReader(1)
    feed_all(lambda event: list(reader.feed(event)), [called("{}", id="a")] * PIECES)
    list(reader.finish())
    assert [call.arguments for call in reader.calls] == ["{}"]


@pytest.mark.parametrize("index", ["9" * 5000, "\u00b2", -1, 10**400, 1.5])
def test_an_index_that_is_no_number_is_none(index: object) -> None:
    reader = CompletionReader(1)
    list(reader.feed(delta(tool_calls=[{"index": index, "id": "a", "function": {"name": "bash", "arguments": "{}"}}])))
    list(reader.finish())
    assert [call.name for call in reader.calls] == ["bash"]


@pytest.mark.slow  # measures time
def test_reasoning_details_in_many_pieces_are_one_text() -> None:
    piece = {"type": "reasoning.text", "text": "abcdefgh"}
    reader = CompletionReader(1)
    feed_all(lambda event: list(reader.feed(event)), [delta(reasoning_details=[piece])] * PIECES)
    assert reader.fields == {"reasoning_details": [{"type": "reasoning.text", "text": "abcdefgh" * PIECES}]}


def test_members_without_end_do_not_fill_the_memory() -> None:
    reader = CompletionReader(1)
    list(reader.feed(delta(signature="c2ln")))
    for at in range(2 * MAX_MERGED_BYTES // 2**16):
        list(reader.feed(delta(**{f"reasoning_{at}": "x" * 2**16})))
    assert len(str(reader._kept.fields)) < 1.1 * MAX_MERGED_BYTES  # pyright: ignore[reportPrivateUsage]
    assert reader.fields["signature"] == "c2ln"


def test_a_member_that_grows_beyond_the_bound_is_not_kept_in_part() -> None:
    reader = CompletionReader(1)
    for _ in range(2 * MAX_MERGED_BYTES // 2**16):
        list(reader.feed(delta(reasoning_details=[{"text": "x" * 2**16}])))
    assert reader.fields == {}


@pytest.mark.slow  # measures time
def test_a_call_that_is_written_letter_by_letter() -> None:
    reader = CompletionReader(1)
    feed_all(lambda event: list(reader.feed(event)), [delta(content="<tool_call>"), *[delta(content="a")] * 250_000])


@pytest.mark.slow  # measures time
@pytest.mark.parametrize("begin", [b"data: {x", b'data: {"a":"', b"data: ["])
def test_an_event_of_many_lines(begin: bytes) -> None:
    splitter = EventSplitter()
    feed_all(lambda line: list(splitter.feed(line)), [b"event: x\n", begin + b"\n", *[b"data: {},{}\n"] * PIECES])


def test_an_event_without_end_is_refused() -> None:
    splitter = EventSplitter()
    list(splitter.feed(b"event: x\ndata: [\n"))
    lines = (b"data: " + b"1," * 2**19 + b"\n") * 9
    with pytest.raises(ModelError, match="more than"):
        list(splitter.feed(lines))


def test_an_event_of_several_lines_is_given_as_soon_as_it_is_whole() -> None:
    splitter = EventSplitter()
    lines = [b'data: {"a": {', b'data: "b": "}"', b"data: }", b"data: }"]
    given = [list(splitter.feed(line + b"\n")) for line in lines]
    assert given == [[], [], [], [b'{"a": {\n"b": "}"\n}\n}']]


@pytest.mark.slow  # measures time
def test_blanks_before_an_answer() -> None:
    splitter = EventSplitter()
    feed_all(lambda piece: list(splitter.feed(piece)), [b" "] * 500_000)
    assert list(splitter.feed(b'\xef\xbb\xbfdata: {"a": 1}\n')) == [b'{"a": 1}']
