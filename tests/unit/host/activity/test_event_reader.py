"""What an agent sends as events: whole events in any pieces, and nothing that it has no business to say."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_common.event_ring import MAX_EVENT_BYTES
from agent_host.activity.event_reader import EventReader, SentEvent, parse_event

STARTED = {"type": "turn-started", "user": "ann", "session_id": "s"}


def line(event_id: int, data: bytes) -> bytes:
    return b"id: %d\nevent: x\ndata: %b\n\n" % (event_id, data)


def in_pieces(stream: bytes, cuts: list[int]) -> list[SentEvent]:
    reader, at = EventReader(), sorted({0, *(cut % (len(stream) + 1) for cut in cuts), len(stream)})
    return [event for begin, end in pairwise(at) for event in reader.feed(stream[begin:end])]


@given(
    datas=st.lists(st.binary(max_size=30).map(lambda data: data.replace(b"\n", b"").replace(b"\r", b"")), max_size=8),
    cuts=st.lists(st.integers(0, 10_000), max_size=20),
)
def test_events_are_whole_in_whatever_pieces_they_come(datas: list[bytes], cuts: list[int]) -> None:
    stream = b": watching\nid: 7\n\n" + b"".join(line(8 + number, b"x" + data) for number, data in enumerate(datas))
    told = in_pieces(stream, cuts)
    assert told[0] == SentEvent(7, b"", too_long=False)
    assert told[1:] == [SentEvent(8 + number, b"x" + data, too_long=False) for number, data in enumerate(datas)]


@pytest.mark.parametrize("piece", [1000, 65_536, 10 << 20])
def test_an_event_that_is_too_long_is_skipped_and_the_next_one_is_read(piece: int) -> None:
    stream = line(8, b"x" * (MAX_EVENT_BYTES * 3)) + line(9, b"next")
    reader, told = EventReader(), list[SentEvent]()
    for at in range(0, len(stream), piece):
        told += reader.feed(stream[at : at + piece])
        assert len(reader._rest) <= MAX_EVENT_BYTES + piece
    assert told == [SentEvent(8, b"", too_long=True), SentEvent(9, b"next", too_long=False)]


def test_many_lines_of_one_event_are_bounded_too() -> None:
    stream = b"id: 8\n" + b"data: %b\n" % (b"x" * 1000) * 1000 + b"\n" + line(9, b"next")
    assert in_pieces(stream, [10_000, 300_000]) == [SentEvent(8, b"", True), SentEvent(9, b"next", False)]


def test_lines_without_content_are_bounded_too() -> None:
    reader = EventReader()
    assert list(reader.feed(b"data:\n" * (MAX_EVENT_BYTES * 2))) == []
    assert len(reader._data) <= MAX_EVENT_BYTES
    assert list(reader.feed(b"id: 8\n\n")) == [SentEvent(8, b"", too_long=True)]


@given(st.binary(max_size=300), st.lists(st.integers(0, 300), max_size=5))
def test_no_bytes_break_it(stream: bytes, cuts: list[int]) -> None:
    for event in in_pieces(stream, cuts):
        parse_event(event.data)


@pytest.mark.parametrize(
    "changes",
    [
        {"type": "workspace-changed"},
        {"type": "work-changed"},
        {"type": "turn-invented"},
        {"type": None},
        {"user": None},
        {"user": ""},
        {"user": 7},
        {"user": "x" * 201},
        {"type": "skills-changed"},
    ],
)
def test_what_no_agent_of_ours_would_say_is_refused(changes: dict[str, Any]) -> None:
    assert parse_event(json.dumps(STARTED).encode()) is not None
    assert parse_event(json.dumps({**STARTED, **changes}).encode()) is None


@pytest.mark.parametrize("data", [b"", b"[]", b"{", b'{"type": "turn-started", "type": "turn-started"}', b"[" * 500])
def test_what_is_no_object_is_refused(data: bytes) -> None:
    assert parse_event(data) is None


def test_the_host_writes_the_workspace_and_the_time_itself() -> None:
    event = parse_event(json.dumps({**STARTED, "workspace": "other", "at": 1}).encode())
    assert event is not None
    assert event.facts == {"user": "ann", "session_id": "s"}
    lost = parse_event(b'{"type": "events-lost", "after": 12, "more": "x"}')
    assert lost is not None
    assert lost.facts == {}
