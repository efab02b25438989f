"""Replies on the wire: bytes, pauses and an end. Pure functions, so that sending a reply is trivial."""

from __future__ import annotations

import itertools
import json
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, cast


@dataclass(frozen=True, slots=True)
class Pause:
    seconds: float


@dataclass(frozen=True, slots=True)
class Hold:
    """Wait until released, and close the connection after `seconds`."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Close:
    """Close the connection once all written bytes are sent."""


WireReply = list[bytes | Pause | Hold | Close]
_PHRASES = {int(status): status.phrase for status in HTTPStatus}
LAST_CHUNK = b"0\r\n\r\n"
"""The end of a chunked body."""


def json_reply(status: int, body: Any, *headers: str) -> bytes:
    """Return a complete HTTP response."""
    return whole_reply(status, json.dumps(body).encode(), "application/json", *headers)


def whole_reply(status: int, body: bytes, content_type: str, *headers: str) -> bytes:
    """Return a complete HTTP response with any body."""
    return reply_head(status, f"content-type: {content_type}", f"content-length: {len(body)}", *headers) + body


def stream_head(*headers: str) -> bytes:
    """Return the head of an event stream, whose chunks follow."""
    return reply_head(200, "content-type: text/event-stream; charset=utf-8", "transfer-encoding: chunked", *headers)


def reply_head(status: int, *headers: str) -> bytes:
    """Return a status line and headers."""
    phrase = _PHRASES.get(status, "Unassigned")  # gateways send 520 to 529
    return "\r\n".join((f"HTTP/1.1 {status} {phrase}", *headers, "", "")).encode("latin-1")


def http_chunk(data: bytes) -> bytes:
    """Return data as a chunk of a chunked body."""
    return b"%x\r\n%b\r\n" % (len(data), data)


def cut(reply: WireReply, pieces: int) -> WireReply:
    """Return the first `pieces` pieces of a reply, with the head and the opening event that precede them."""
    if pieces == 0:
        return []
    written = 0
    for position, item in enumerate(reply):
        written += isinstance(item, bytes)
        if written == pieces + 2:
            return reply[: position + 1]
    return reply[:-1]


def joined(reply: WireReply) -> WireReply:
    """Join bytes that are due at once, so that the reply takes fewer writes."""
    result: WireReply = []
    for are_bytes, run in itertools.groupby(reply, lambda item: isinstance(item, bytes)):
        items = list(run)
        result += [b"".join(cast(list[bytes], items))] if are_bytes else items
    return result
