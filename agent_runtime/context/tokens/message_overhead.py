"""Count the tokens of a message with its overhead, by the recipe in OpenAI's cookbook.

- A message: 3, its role, its content, and 1 more where it has a name. Every request: 3 to begin the reply.
- A tool call, which the recipe does not mention: 3, the name and the arguments. The model does not see its id.
- A picture or another part that is not text: as much as a picture of a megapixel.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from pydantic_core import from_json, to_json  # noqa: TID251  messages of our own making

from agent_common.protocol import is_object

MESSAGE = 3
NAME = 1
REPLY = 3
"""Begins the model's reply; once for a request."""
CALL = 3
PICTURE = 765
"""A part of a message that is not text."""

Count = Callable[[str], int]


def message_tokens(message: bytes, count: Count) -> int:
    """Count the tokens of one serialized message. One that is not valid JSON counts as plain text."""
    try:
        parsed: Any = from_json(message)
    except ValueError:
        return MESSAGE + count(message.decode(errors="replace"))
    if not is_object(parsed):
        return MESSAGE + count(message.decode(errors="replace"))
    return MESSAGE + sum(_field(name, value, count) for name, value in parsed.items())


def _field(name: str, value: Any, count: Count) -> int:
    match name, value:
        case "tool_call_id", _:
            return 0
        case "tool_calls", list():
            return sum(_call(call, count) for call in cast(list[Any], value))
        case "content", list():
            return sum(_part(part, count) for part in cast(list[Any], value))
        case "name", str():
            return NAME + count(value)
        case _, str():
            return count(value)
        case _, None:
            return 0
        case _:
            return count(to_json(value).decode())


def _call(call: Any, count: Count) -> int:
    function = call.get("function") if is_object(call) else None
    if not is_object(function):
        return CALL + count(to_json(call).decode())
    texts = (function.get("name"), function.get("arguments"))
    return CALL + sum(count(text) for text in texts if isinstance(text, str))


def _part(part: Any, count: Count) -> int:
    text = part.get("text") if is_object(part) else part
    return count(text) if isinstance(text, str) else PICTURE
