"""Read the messages that a program writes on lines, where other lines and words may be between them.

Imported only when a server is started, because it needs packages that load slowly.
"""

from __future__ import annotations

import json
import re
from typing import Any

from mcp_types import JSONRPCError, JSONRPCMessage, JSONRPCResponse, jsonrpc_message_adapter
from pydantic_core import from_json  # noqa: TID251  the cost is checked before

from agent_common.json_reader import JsonRefused, check_cost, read_json

from ..rate_limit import JSON_LIMITS
from .mended_messages import mend_message

_ANSWER_BEGIN = re.compile(rb'\{\s*"(?:jsonrpc|id|result|error)"')


def read_messages(line: bytes) -> list[JSONRPCMessage]:
    """Return the messages on a line: one, or a list of them, as the protocol of 2025-03-26 had it. Raises JsonRefused,
    and ValueError if it is other JSON."""
    if not line.lstrip().startswith(b"["):
        return [read_message(line)]
    listed: Any = read_json(line, JSON_LIMITS)
    if not listed:
        raise ValueError("there is no message in the list")
    return [read_message(json.dumps(one).encode()) for one in listed]


def read_message(line: bytes) -> JSONRPCMessage:
    """Return the message on a line. Raises JsonRefused, and ValueError if it is other JSON."""
    data = mend_message(line)
    try:
        found = read_json(data, JSON_LIMITS)
    except JsonRefused:
        if (answer := _find_answer(data)) is None:
            raise
        return answer
    return jsonrpc_message_adapter.validate_python(found, by_name=False)


def _find_answer(data: bytes) -> JSONRPCResponse | JSONRPCError | None:
    """Return the answer in a line that is refused: behind words that were printed without the end of a line, or with
    NaN or a key twice, which the package reads over HTTP too. A log that quotes a request of ours is none. Raises
    JsonRefused if it exceeds a limit."""
    begin = _ANSWER_BEGIN.search(data)
    if begin is None:
        return None
    data = mend_message(data[begin.start() :])
    check_cost(data, JSON_LIMITS)
    try:
        message = jsonrpc_message_adapter.validate_python(from_json(data), by_name=False)
    except ValueError:
        return None
    return message if isinstance(message, JSONRPCResponse | JSONRPCError) else None
