"""Lines of a program that are too large to be read: of such a line only the ends are kept, which tell whose it is.

So an answer that is too large fails the call that waits for it, and no other; the program and its state live on.
Imported only when a server is started, because it needs packages that load slowly.
"""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass
from typing import Any

from mcp_types import INTERNAL_ERROR, JSONRPCMessage, jsonrpc_message_adapter

from agent_common.json_reader import JsonRefused, read_json

from ..rate_limit import JSON_LIMITS, LimitExceeded

MAX_LINE = 64 * 1024 * 1024
"""Most bytes of a line that is passed over; what has no end by then never will."""
KEPT_BYTES = 4096
"""Bytes that are kept of each end of a line."""

_MEMBER = rb'\s*+"(?:jsonrpc|id|method)"\s*+:\s*+(?:"[^"\\]*+"|-?\d++)\s*+'
_BEGIN = re.compile(rb"\{((?:" + _MEMBER + rb',)*+)\s*+"(result|error|params)"\s*+:')
"""The members of a message in front of the one that is large."""
_END = re.compile(rb",(" + _MEMBER + rb"(?:," + _MEMBER + rb"){0,2}+)\}\s*+\Z")
"""Those behind it."""
_WHOLE = re.compile(rb"\}\s*+\Z")


@dataclass(frozen=True, slots=True)
class LongLine:
    """The first and the last bytes of a line that is too large."""

    first: bytes
    last: bytes

    @classmethod
    def of(cls, line: bytes) -> LongLine:
        return cls(line[:KEPT_BYTES], line[-KEPT_BYTES:])


async def read_line(stream: asyncio.StreamReader) -> bytes | LongLine:
    """Return the next line, or the ends of one that is longer than the stream's limit; nothing after the last line.
    Raises LimitExceeded for a line without an end."""
    first = last = b""
    size = 0
    while True:
        try:
            rest = await stream.readuntil()
        except asyncio.IncompleteReadError as end:
            rest = end.partial
        except asyncio.LimitOverrunError as overrun:
            piece = await stream.readexactly(overrun.consumed)
            size += len(piece)
            if size > MAX_LINE:
                raise LimitExceeded(f"it sent a line that is too long, of more than {MAX_LINE // 2**20} MiB") from None
            first = first or piece[:KEPT_BYTES]
            last = piece[-KEPT_BYTES:]
            continue
        return LongLine(first, (last + rest)[-KEPT_BYTES:]) if size else rest


def find_stand_in(line: LongLine, reason: str) -> JSONRPCMessage | None:
    """Return what takes the place of the message on such a line: an error with the reason for an answer, and a
    request or notification without its parameters. Returns None if it cannot be told what it is."""
    begin = _BEGIN.search(line.first)
    if begin is None or not _WHOLE.search(line.last):
        return None
    end = _END.search(line.last)
    members = begin[1] + (end[1] if end else b"")
    try:
        message: dict[str, Any] = {"jsonrpc": "2.0", **read_json(b"{" + members.strip(b" ,") + b"}", JSON_LIMITS)}
        if begin[2] != b"params":
            message["error"] = {"code": INTERNAL_ERROR, "message": f"its answer was not read: {reason}"}
        return jsonrpc_message_adapter.validate_python(message, by_name=False)
    except (JsonRefused, ValueError):
        return None
