"""The line between the server and a skill worker: one JSON object a line, over the worker's own pipes.

    server to worker                          worker to server
    call    id, name, arguments               loaded  skills            once, at start
    reply   id, value or error                failed  error             once, in its place
                                              ask     id, what, arguments
                                              result  id, value
                                              error   id, error, kind

A reply answers an ask: that is how a skill reaches the mesh, and the only way. The worker's side is untrusted.
"""

from __future__ import annotations

import json
from typing import Any

MESSAGE_LIMIT = 16 * 1024 * 1024
"""Bytes of one line."""

Message = dict[str, Any]


class Broken(Exception):
    """The other side does not speak as agreed."""


def pack(message: Message) -> bytes:
    """Raises TypeError or ValueError when the message is not JSON, or too long."""
    line = json.dumps(message, allow_nan=False, separators=(",", ":")).encode() + b"\n"
    if len(line) > MESSAGE_LIMIT:
        raise ValueError(f"it is larger than {MESSAGE_LIMIT // 2**20} MiB; write it to a file in the workspace")
    return line


def unpack(line: bytes) -> Message:
    """Raises Broken when this is not a message."""
    try:
        message = json.loads(line, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise Broken(f"not a message: {error}") from error
    if not isinstance(message, dict) or not isinstance(message.get("type"), str):  # pyright: ignore[reportUnknownMemberType]
        raise Broken("not a message: it has no type")
    return message  # pyright: ignore[reportUnknownVariableType]


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")
