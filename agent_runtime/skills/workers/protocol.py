"""The protocol between the server and a skill worker: one JSON object a line, over the worker's pipes.

    server to worker                          worker to server
                                              ready                     once, before any code of the plugin
    load    trial                             loaded  skills            once
    call    id, name, arguments               failed  error             once, in its place
    reply   id, value or error, refused       ask     id, what, arguments
                                              result  id, value, spent
                                              error   id, error, kind, spent

A reply answers an ask, which is the only way in which a skill reaches the mesh. `spent` says that the call has changed
the process, so that it is not fit for another one. The worker is untrusted.
"""

from __future__ import annotations

import json
from typing import Any

MESSAGE_LIMIT = 16 * 1024 * 1024
"""Bytes of one line to a worker."""
ANSWER_LIMIT = 4 * 1024 * 1024
"""Bytes of one line to the server."""
MAX_VALUES = 200_000
"""Brackets and commas of such a line, those in texts included: they decide what it costs the server to read it."""
COUNT_FROM_BYTES = 64 * 1024
"""Bytes of a line above which they are counted."""

TOO_LARGE_ADVICE = "write it to a file in the workspace"

Message = dict[str, Any]


class BrokenProtocol(Exception):
    """The other side does not keep to the protocol."""


def pack(message: Message, limit: int = MESSAGE_LIMIT) -> bytes:
    """Return the line of a message. Raises TypeError or ValueError when it is not JSON, or too long."""
    line = _encode(message).encode() + b"\n"
    if len(line) > limit:
        raise ValueError(f"it is larger than {limit // 2**20} MiB; {TOO_LARGE_ADVICE}")
    return line


def pack_answer(message: Message) -> bytes:
    """Return the line of a worker's message, within the server's limits. Raises TypeError or ValueError."""
    line = pack(message, ANSWER_LIMIT)
    check_answer(line)
    return line


def check_answer(line: bytes) -> None:
    """Raise ValueError for a line that would take the server too long to read."""
    if len(line) > COUNT_FROM_BYTES and line.count(b",") + line.count(b"[") + line.count(b"{") > MAX_VALUES:
        raise ValueError(f"it has more than {MAX_VALUES:,} values; {TOO_LARGE_ADVICE}")


def unpack(line: bytes) -> Message:
    """Return the message of a line. Raises BrokenProtocol. Lone surrogates become question marks, because no database
    and no client could store them."""
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
    """Return the line that a worker prints to its standard error after the output of a call, before it answers."""
    return b"\0%b\n" % call.encode()


def _dump_model(value: Any) -> Any:
    """Turn a pydantic model in a result into JSON. Raises TypeError for everything else."""
    dump = getattr(value, "model_dump", None)
    if dump is None:
        raise TypeError(f"Object of type {type(value).__name__} is not JSON serializable")
    return dump(mode="json")


def _reject_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


# Bound before any plugin is imported, so that a plugin which changes the module json does not affect them.
_encode = json.JSONEncoder(allow_nan=False, separators=(",", ":"), default=_dump_model).encode
_decode = json.JSONDecoder(parse_constant=_reject_constant).decode  # noqa: TID251  used in workers, and for lines whose cost was checked
