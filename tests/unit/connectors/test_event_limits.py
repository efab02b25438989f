"""What the events of a server's stream may cost."""

from __future__ import annotations

import pytest

from agent_runtime.connectors.rate_limit import MAX_NODES, MESSAGE_LIMIT, UNIT, LimitExceeded
from agent_runtime.connectors.transport.event_limits import EventCheck

COSTLY = b'data: {"a":[' + b"0," * MAX_NODES + b"0]}"


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
@pytest.mark.parametrize("size", [1, 7, 1 << 16])
def test_events_are_found_however_they_are_cut(end: bytes, size: int) -> None:
    sound = end.join([b": a comment", b"id: 1", b'data: {"a":', b"data: 1}", b"", b"data: {}", b"", b""])
    check = EventCheck()
    for piece in (sound[at : at + size] for at in range(0, len(sound), size)):
        check.feed(piece)
    check.feed(COSTLY + end[:1])
    with pytest.raises(LimitExceeded, match="values"):
        check.feed(end[1:] + end)


def test_an_event_that_the_end_of_the_stream_cuts_off_is_checked() -> None:
    check = EventCheck()
    check.feed(COSTLY)
    with pytest.raises(LimitExceeded, match="values"):
        check.end()


def test_an_event_has_a_limit_in_bytes() -> None:
    check = EventCheck()
    check.feed(b"data: " + b"x" * (MESSAGE_LIMIT - 100) + b"\n\n")
    with pytest.raises(LimitExceeded, match="4 MiB"):
        check.feed(b"data: " + b"x" * MESSAGE_LIMIT)


@pytest.mark.parametrize(("piece", "least"), [(b"\r" * 1000, 1000 * UNIT), (b"a\n" * 1600, 100 * UNIT), (b"a", 1)])
def test_short_lines_and_events_cost_more_than_their_bytes(piece: bytes, least: int) -> None:
    assert EventCheck().feed(piece) >= least
