"""The parser of replies, before servers that never come to an end."""

from __future__ import annotations

import pytest

from agent_common.net.client.reply import MAX_HEAD_BYTES, InvalidReply, ReplyParser

CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
ENDLESS = [
    pytest.param(b"0\r\nX: ", b"A" * 1000, id="a trailer without an end"),
    pytest.param(b"0\r\n", b"a: b\r\n" * 100, id="trailers without an end"),
    pytest.param(b"2\r\nok\r\n0\r\nX: ", b"A" * 1000, id="a trailer after a body"),
    pytest.param(b"2;", b"A" * 1000, id="an extension of a chunk"),
    pytest.param(b"", b"0" * 1000, id="a size of a chunk"),
]


def parser(*given: bytes) -> ReplyParser:
    made = ReplyParser()
    made.expect_reply()
    for piece in given:
        made.feed(piece)
    return made


@pytest.mark.parametrize(("begin", "more"), ENDLESS)
def test_what_comes_between_pieces_of_a_body_is_bounded(begin: bytes, more: bytes) -> None:
    reply = parser(CHUNKED, begin)
    for _ in range((MAX_HEAD_BYTES - len(begin)) // len(more)):
        reply.feed(more)
    with pytest.raises(InvalidReply):
        reply.feed(more)
    assert not reply.done


def test_a_long_body_in_small_chunks_with_a_trailer_is_taken() -> None:
    reply = parser(CHUNKED, *[b"2;a=b\r\nok\r\n"] * 20_000, b"0\r\nx: ", b"y" * 1000, b"\r\n\r\n")
    assert (reply.done, reply.waiting_bytes) == (True, 40_000)
    assert "x" not in reply.headers


@pytest.mark.parametrize("status", [600, 999])
def test_a_status_that_there_is_not_is_no_reply(status: int) -> None:
    with pytest.raises(InvalidReply, match=f"there is no status {status}"):
        parser(b"HTTP/1.1 %d X\r\ncontent-length: 2\r\n\r\nok" % status)


def test_a_head_that_comes_at_once_is_bounded_too() -> None:
    reply = parser()
    with pytest.raises(InvalidReply):
        reply.feed(b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * MAX_HEAD_BYTES + b"content-length: 0\r\n\r\n")
    assert not reply.status
