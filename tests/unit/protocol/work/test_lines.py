"""Lines are cut out of a stream, whatever pieces it comes in (docs/protocols/mediation.md#22-framing)."""

from __future__ import annotations

import tracemalloc
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from agent_common.protocol.work import HARD_FACTOR, FrameFault, FrameTooLarge, Lines, decode, encode, read_frame
from agent_common.protocol.work.framing import MAX_EMPTY_BYTES

from .samples import REQUEST, frames


def fed(*pieces: bytes, soft: int = 1 << 20) -> list[bytes | FrameFault]:
    lines = Lines(soft)
    return [line for piece in pieces for line in lines.feed(piece)]


def codes(found: list[bytes | FrameFault]) -> list[bytes | str]:
    return [one if isinstance(one, bytes) else one.code for one in found]


def test_a_frame_that_dribbles_in_byte_by_byte() -> None:
    line = encode(REQUEST)
    assert fed(*(line[at : at + 1] for at in range(len(line)))) == [line[:-1]]


def test_two_frames_in_one_read() -> None:
    assert fed(b'{"a":1}\n{"b":2}\n') == [b'{"a":1}', b'{"b":2}']


def test_a_frame_is_cut_inside_a_character() -> None:
    line = encode({"text": "h\u00e4\U0001f600"})
    for cut in range(len(line)):
        (whole,) = fed(line[:cut], line[cut:])
        assert isinstance(whole, bytes)
        assert decode(whole) == {"text": "h\u00e4\U0001f600"}


def test_a_carriage_return_before_the_end_is_ignored() -> None:
    assert fed(b'{"a":1}\r\n', b'{"b":2}\r', b"\n") == [b'{"a":1}', b'{"b":2}']


def test_blank_lines_are_ignored() -> None:
    assert fed(b"\n\r\n \n\t \r\n{}\n\n") == [b"{}"]


def test_what_stands_behind_the_last_line_end_is_no_line() -> None:
    assert fed(b'{"a":1}\n{"request_id":"valid JSON, and cut off"}') == [b'{"a":1}']


def test_a_line_that_was_dropped_stays_dropped_when_the_limit_grows() -> None:
    lines = Lines(100)
    assert list(lines.feed(b'{"a":"' + b"x" * 100)) == []
    lines.soft = 1000
    assert codes([*lines.feed(b"x" * 100 + b'"}\n{}\n')]) == ["line_too_long", b"{}"]


def test_a_line_over_the_soft_limit_is_skipped_and_reported() -> None:
    long = b'{"a":"' + b"x" * 100 + b'"}\n'
    assert codes(fed(b"{}\n" + long + b"{}\n", soft=100)) == [b"{}", "line_too_long", b"{}"]
    assert codes(fed(*(long[at : at + 7] for at in range(0, len(long), 7)), b"{}\n", soft=100)) == [
        "line_too_long",
        b"{}",
    ]


@pytest.mark.parametrize(("size", "whole"), [(100, True), (101, False)])
def test_the_soft_limit_counts_the_bytes_before_the_line_end(size: int, whole: bool) -> None:
    (found,) = fed(b"x" * size + b"\n", soft=100)
    assert isinstance(found, bytes) == whole


def test_a_line_over_the_hard_limit_ends_the_reading() -> None:
    assert codes(fed(b"x" * 100 * HARD_FACTOR + b"\n", soft=100)) == ["line_too_long"]
    lines = Lines(100)
    found = lines.feed(b"{}\n" + b"x" * (100 * HARD_FACTOR + 1))
    assert next(found) == b"{}"
    with pytest.raises(FrameTooLarge):
        next(found)
    with pytest.raises(FrameTooLarge):
        fed(*[b"x" * 99] * 5, soft=100)


def test_memory_stays_flat_under_lines_that_are_too_long() -> None:
    piece, lines = b"x" * 65_536, Lines(1 << 20)
    tracemalloc.start()
    try:
        for _ in range(20):
            for _ in range(60):
                assert not list(lines.feed(piece))
            assert codes(list(lines.feed(b"\n"))) == ["line_too_long"]
        assert tracemalloc.get_traced_memory()[1] < 3 << 20  # a bytearray grows in steps
    finally:
        tracemalloc.stop()


def cut(data: bytes, places: list[int]) -> list[bytes]:
    edges = sorted({0, len(data), *(place % (len(data) + 1) for place in places)})
    return [data[one:other] for one, other in pairwise(edges)]


@given(st.lists(frames, max_size=4), st.lists(st.integers(0, 10_000), max_size=12))
def test_any_frame_survives_any_cutting(sent: list[BaseModel], places: list[int]) -> None:
    stream = b"".join(encode(frame) for frame in sent)
    received = [read_frame(decode(line)) for line in fed(*cut(stream, places)) if isinstance(line, bytes)]
    assert received == sent


@given(
    st.lists(st.binary(max_size=60) | st.sampled_from([b"\n", b"\r\n", b"{", b'"', b"}", b"[[", b"\xff"]), max_size=9)
)
def test_no_bytes_crash_the_reader(pieces: list[bytes]) -> None:
    lines = Lines(64)
    for piece in pieces:
        try:
            for line in lines.feed(piece):
                if isinstance(line, bytes):
                    read_frame(decode(line))
        except FrameFault as fault:
            str(fault).encode()
        except FrameTooLarge:
            return


@pytest.mark.parametrize("empty", [b"\n", b" \r\n", b"\t \n\r\n"])
def test_empty_lines_are_passed_over_until_there_are_too_many(empty: bytes) -> None:
    lines, many = Lines(), empty * (MAX_EMPTY_BYTES // len(empty) - 1)
    assert list(lines.feed(many + b'{"a":1}\n')) == [b'{"a":1}']
    assert list(lines.feed(many)) == []
    [fault] = lines.feed(empty * 4 + b"{")
    assert isinstance(fault, FrameFault)
    assert fault.code == "empty_lines"
    assert list(lines.feed(b"}\n")) == [b"{}"]


def test_a_frame_with_room_for_very_many_faults_is_refused_at_once() -> None:
    for frame in (
        {"ctl": "resume", "running": [0] * 20_000},
        {"signal": "ready", **dict.fromkeys(map(str, range(20_000)))},
    ):
        with pytest.raises(FrameFault, match="more than 10000 fields and items"):
            read_frame(frame)
