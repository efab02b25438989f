"""The line between the server and a skill worker: one JSON object a line, over the worker's own pipes.

    server to worker                          worker to server
                                              ready                     once, before any code of the plugin
    load    trial                             loaded  skills            once
    call    id, name, arguments               failed  error             once, in its place
    reply   id, value or error                ask     id, what, arguments
                                              result  id, value, spent
                                              error   id, error, kind, spent

A reply answers an ask: that is how a skill reaches the mesh, and the only way. `spent` says that the call has changed
the process, so that it is not fit for another one. The worker's side is untrusted.
"""

from __future__ import annotations

import json
from typing import Any

MESSAGE_LIMIT = 16 * 1024 * 1024
"""Bytes of one line to a worker."""
ANSWER_LIMIT = 4 * 1024 * 1024
"""Bytes of one line to the server."""
MAX_VALUES = 200_000
"""Brackets and commas of such a line, those in texts included: by them goes what it costs the server to read it."""
COUNT_FROM_BYTES = 64 * 1024
"""Bytes from which on they are counted."""

TOO_LARGE_ADVICE = "write it to a file in the workspace"

Message = dict[str, Any]


class BrokenProtocol(Exception):
    """The other side does not speak as agreed."""


def pack(message: Message, limit: int = MESSAGE_LIMIT) -> bytes:
    """Raises TypeError or ValueError when the message is not JSON, or too long."""
    line = _encode(message).encode() + b"\n"
    if len(line) > limit:
        raise ValueError(f"it is larger than {limit // 2**20} MiB; {TOO_LARGE_ADVICE}")
    return line


def pack_answer(message: Message) -> bytes:
    """The worker's side of `check_answer`. Raises TypeError or ValueError."""
    line = pack(message, ANSWER_LIMIT)
    check_answer(line)
    return line


def check_answer(line: bytes) -> None:
    """Raises ValueError for a line that the server would read for too long."""
    if len(line) > COUNT_FROM_BYTES and line.count(b",") + line.count(b"[") + line.count(b"{") > MAX_VALUES:
        raise ValueError(f"it has more than {MAX_VALUES:,} values; {TOO_LARGE_ADVICE}")


def unpack(line: bytes) -> Message:
    """Raises Broken when this is not a message. Half characters become question marks: no database and no client
    could take them."""
    try:
        message = _decode(line.decode())
        if b"\\ud" in line.lower():
            message = _decode(json.dumps(message, ensure_ascii=False).encode(errors="replace").decode())
    except (ValueError, RecursionError) as error:
        raise BrokenProtocol(f"not a message: {error}") from error
    if not isinstance(message, dict) or not isinstance(message.get("type"), str):  # pyright: ignore[reportUnknownMemberType]
        raise BrokenProtocol("not a message: it has no type")
    return message  # pyright: ignore[reportUnknownVariableType]


def end_of_log(call: str) -> bytes:
    """Return the line that a worker prints to its standard error behind the output of a call, before it answers."""
    return b"\0%b\n" % call.encode()


def _dump_model(value: Any) -> Any:
    """Turn a pydantic model in a result into JSON. Raises TypeError for everything else."""
    dump = getattr(value, "model_dump", None)
    if dump is None:
        raise TypeError(f"Object of type {type(value).__name__} is not JSON serializable")
    return dump(mode="json")


def _reject_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


# Bound before any plugin is imported: what one does to the module json is its own affair.
_encode = json.JSONEncoder(allow_nan=False, separators=(",", ":"), default=_dump_model).encode
_decode = json.JSONDecoder(parse_constant=_reject_constant).decode
