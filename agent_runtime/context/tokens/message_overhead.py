"""What a request's frame costs beside its texts, after the recipes that OpenAI has published in its cookbook.

They were found by measuring and are not exact: the model's own report is what counts (see `gauge`).

- A message: 3, its role, its content, and 1 more where it has a name. Every request: 3 to begin the reply.
- A tool call, where the recipes are silent: 3, the name and the arguments. Its id is not shown to the model.
- A picture or another part that is not text: what a picture of a megapixel costs.
- Tools: 12, and for each 7 (`cl100k_base`: 10) and `name:description`. An object of properties 3, each property 3 and
  `name:type:description`. An enum -3, each value 3 and its text. The recipe has flat schemas only; here what is nested
  counts alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, cast

from pydantic_core import from_json, to_json

from agent_common.protocol import is_object

from .models import EncodingName

MESSAGE = 3
NAME = 1
REPLY = 3
"""Begins the model's reply; once for a request."""
CALL = 3
PICTURE = 765
"""A part of a message that is not text."""

Count = Callable[[str], int]


_TOOLS = 12
_TOOL: dict[EncodingName, int] = {"o200k_base": 7, "cl100k_base": 10}
_PROPERTIES = _PROPERTY = 3
_ENUM, _VALUE = -3, 3
_MAX_DEPTH = 32
"""Levels of a schema; what lies deeper is not shown to a model in any way we know."""


def message_tokens(message: bytes, count: Count) -> int:
    """Tokens of one serialised message. One that cannot be read costs what its text does."""
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


def tools_tokens(tools: bytes, encoding: EncodingName, count: Count) -> int:
    """Tokens of a serialised array of tool definitions. One that cannot be read costs what its text does."""
    try:
        parsed: Any = from_json(tools)
    except ValueError:
        return count(tools.decode(errors="replace"))
    if not isinstance(parsed, list) or not parsed:
        return 0
    return _TOOLS + sum(_tool(tool, _TOOL[encoding], count) for tool in cast(list[Any], parsed))


def _tool(tool: Any, frame: int, count: Count) -> int:
    function = tool.get("function") if is_object(tool) else None
    if not is_object(function):
        return count(to_json(tool).decode())
    line = f"{function.get('name', '')}:{_sentence(function.get('description'))}"
    return frame + count(line) + _properties(function.get("parameters"), count, 0)


def _properties(schema: Any, count: Count, depth: int) -> int:
    """What stands inside of an object, an array or a choice."""
    if depth > _MAX_DEPTH or not is_object(schema):
        return 0
    total = 0
    properties = schema.get("properties")
    if is_object(properties) and properties:
        total += _PROPERTIES + sum(_property(key, value, count, depth) for key, value in properties.items())
    return total + sum(_properties(inner, count, depth + 1) for inner in _inner(schema))


def _property(name: str, schema: Any, count: Count, depth: int) -> int:
    about: Mapping[str, Any] = schema if is_object(schema) else {}
    kind = about.get("type", "")
    line = f"{name}:{kind if isinstance(kind, str) else to_json(kind).decode()}:{_sentence(about.get('description'))}"
    total = _PROPERTY + count(line)
    values = about.get("enum")
    if isinstance(values, list) and values:
        total += _ENUM + sum(_VALUE + count(_literal(value)) for value in cast(list[Any], values))
    return total + _properties(about, count, depth + 1)


def _inner(schema: Mapping[str, Any]) -> Iterator[Any]:
    """Schemas that stand in another one, but for its properties."""
    for name in ("items", "additionalProperties"):
        if is_object(schema.get(name)):
            yield schema[name]
    for name in ("anyOf", "oneOf", "allOf", "prefixItems"):
        if isinstance(among := schema.get(name), list):
            yield from among
    for name in ("$defs", "definitions"):
        if is_object(among := schema.get(name)):
            yield from among.values()


def _literal(value: Any) -> str:
    return value if isinstance(value, str) else to_json(value).decode()


def _sentence(text: Any) -> str:
    return text.removesuffix(".") if isinstance(text, str) else ""
