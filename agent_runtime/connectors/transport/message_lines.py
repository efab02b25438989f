"""Read the messages that a program writes on lines, where other lines and words may be between them.

Imported only when a server is started, because it needs packages that load slowly.
"""

from __future__ import annotations

import re

from mcp_types import JSONRPCError, JSONRPCMessage, JSONRPCResponse, jsonrpc_message_adapter

from agent_common.json_reader import JsonRefused, read_json

from ..rate_limit import JSON_LIMITS
from .mended_messages import mend_message

_ANSWER_BEGIN = re.compile(rb'\{\s*"(?:jsonrpc|id|result|error)"')


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
    """Return the answer in a line that cannot be read as a whole: behind words that the program has printed without the
    end of a line. A log that quotes a request of ours is none."""
    begin = _ANSWER_BEGIN.search(data)
    if begin is None:
        return None
    try:
        found = read_json(mend_message(data[begin.start() :]), JSON_LIMITS)
        message = jsonrpc_message_adapter.validate_python(found, by_name=False)
    except ValueError:
        return None
    return message if isinstance(message, JSONRPCResponse | JSONRPCError) else None
