"""The messages of a request as its model takes them: with what it gave itself, and without what it refuses.

The messages of a session are the same for every model. What only one model is sent is added when a request is made, to
those messages alone, and the same way each time: so its prompt's beginning stays the same.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Literal

from pydantic_core import from_json, to_json  # noqa: TID251  our own messages

from agent_common.profiles import fitted_schema
from agent_common.protocol import Profile

from ..ports import ModelRequest, ProviderFields

_ASSISTANT, _TOOL, _USER = b'{"role":"assistant"', b'{"role":"tool"', b'{"role":"user"'
_NULL_CONTENT = b'{"role":"assistant","content":null'
_BETWEEN = b'{"role":"assistant","content":"I have the result."}'
"""Stands between a tool's result and a user's message for models that refuse the one behind the other."""
_RESULT = re.compile(rb'\{"role":"tool","tool_call_id":("(?:[^"\\]|\\.)*")')
_ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_IDS = {"nine": (re.compile(r"[A-Za-z0-9]{9}"), "", 9), "short": (re.compile(r"[A-Za-z0-9_-]{1,40}"), "call_", 24)}
"""Rule for ids -> what it takes, and the prefix and the length of the digest that replaces another id."""
_REASONING = ("reasoning", "thinking")


def messages_for(request: ModelRequest, maker: str, profile: Profile) -> Sequence[bytes]:
    """Return the messages for a model. `maker` names the model as in the fields that it has given."""
    own = {at: fields for at, fields in request.fields.items() if fields.model == maker}
    messages = _restored(request, own, profile) if own else request.messages
    if _reasoning_required(own, profile):
        messages = [_with_blank_reasoning(message, profile) for message in messages]
    if profile.call_ids in _IDS:
        messages = [_with_ids(message, profile.call_ids) for message in messages]
    if profile.null_content is False:
        messages = [one.replace(b"null", b'""', 1) if one.startswith(_NULL_CONTENT) else one for one in messages]
    if profile.user_after_tool is False or profile.two_users is False:
        messages = _ordered(messages, profile)
    return messages


def tools_for(request: ModelRequest, profile: Profile) -> bytes | None:
    """Return the tool definitions for a model."""
    if request.tools is None and profile.tools_with_calls:
        return _tools_of_calls(request.messages)
    tools = request.tools
    if tools is not None and profile.tool_schemas not in (None, "any"):
        tools = _with_schemas(tools, profile.tool_schemas)
    if tools is not None and profile.description_limit is not None:
        tools = _with_short_descriptions(tools, profile.description_limit)
    return tools


# ---------------------------------------------------------------- what the model gave


def _restored(request: ModelRequest, own: dict[int, ProviderFields], profile: Profile) -> list[bytes]:
    messages = list(request.messages)
    for at, fields in own.items():
        reasoned = profile.reasoning in (None, "always") or (profile.reasoning == "turn" and at > request.turn_start)
        messages[at] = _message_with(messages[at], fields, reasoned)
        after = at + 1
        while fields.ids and after < len(messages) and messages[after].startswith(_TOOL):
            messages[after] = _result_with(messages[after], fields)
            after += 1
    return messages


def _message_with(message: bytes, fields: ProviderFields, reasoned: bool) -> bytes:
    """Return a message with what its model gave. The result is kept, because each later request has it too."""
    known = fields.rendered.get((message, reasoned))
    if known is not None:
        return known
    content: dict[str, Any] = from_json(message)
    for call, members in zip(content.get("tool_calls") or (), fields.calls, strict=False):
        call["id"] = fields.ids.get(call["id"], call["id"])
        inner = members.get("function")
        call |= {name: value for name, value in members.items() if name != "function"}
        if isinstance(inner, dict):
            call["function"] |= inner
    content |= {name: value for name, value in fields.members.items() if reasoned or not name.startswith(_REASONING)}
    if reasoned and fields.reasoning is not None:
        member, text = fields.reasoning
        if member == "content":
            thought = {"type": "thinking", "thinking": [{"type": "text", "text": text}]}
            spoken = [{"type": "text", "text": content["content"]}] if content.get("content") else []
            content["content"] = [thought, *spoken]
        else:
            content[member] = text
    fields.rendered[message, reasoned] = rendered = to_json(content)
    return rendered


def _result_with(message: bytes, fields: ProviderFields) -> bytes:
    known = fields.rendered.get((message, False))
    if known is None:
        content: dict[str, Any] = from_json(message)
        content["tool_call_id"] = fields.ids.get(content["tool_call_id"], content["tool_call_id"])
        fields.rendered[message, False] = known = to_json(content)
    return known


def _reasoning_required(own: dict[int, ProviderFields], profile: Profile) -> bool:
    if profile.reasoning not in (None, "always"):
        return False
    given = any(fields.reasoning is not None and fields.reasoning[0] == "reasoning_content" for fields in own.values())
    return bool(profile.reasoning_required) or (given and profile.reasoning_required is not False)


def _with_blank_reasoning(message: bytes, profile: Profile) -> bytes:
    if not message.startswith(_ASSISTANT) or b'"reasoning_content":' in message:
        return message
    return b'%b,"reasoning_content":%b}' % (message[:-1], to_json(profile.reasoning_blank or ""))


# ---------------------------------------------------------------- what the model refuses


def _with_ids(message: bytes, rule: str) -> bytes:
    """Return a message whose ids of calls the model takes."""
    if message.startswith(_ASSISTANT):
        return _calls_with_ids(message, rule) if b'"tool_calls":' in message else message
    found = _RESULT.match(message)  # its content, which may be long, is not parsed
    if found is None:
        return message
    given = from_json(found[1])
    taken = _id(given, rule)
    return message if taken == given else message[: found.start(1)] + to_json(taken) + message[found.end(1) :]


@lru_cache(maxsize=1024)
def _calls_with_ids(message: bytes, rule: str) -> bytes:
    content: dict[str, Any] = from_json(message)
    ids = [(call, _id(call["id"], rule)) for call in content.get("tool_calls") or ()]
    if all(call["id"] == taken for call, taken in ids):
        return message
    for call, taken in ids:
        call["id"] = taken
    return to_json(content)


def _id(given: str, rule: str) -> str:
    pattern, prefix, length = _IDS[rule]
    if pattern.fullmatch(given):
        return given
    number, letters = int.from_bytes(hashlib.blake2s(given.encode()).digest()), ""
    for _ in range(length):
        number, at = divmod(number, len(_ALPHABET))
        letters += _ALPHABET[at]
    return prefix + letters


def _ordered(messages: Sequence[bytes], profile: Profile) -> list[bytes]:
    ordered: list[bytes] = []
    for message in messages:
        before = ordered[-1] if ordered else b""
        if message.startswith(_USER) and before.startswith(_TOOL) and profile.user_after_tool is False:
            ordered.append(_BETWEEN)
        elif message.startswith(_USER) and before.startswith(_USER) and profile.two_users is False:
            ordered[-1] = _joined(before, message)
            continue
        ordered.append(message)
    return ordered


def _joined(first: bytes, second: bytes) -> bytes:
    texts: list[str] = [from_json(message)["content"] for message in (first, second)]
    return to_json({"role": "user", "content": "\n\n".join(texts)})


def _tools_of_calls(messages: Sequence[bytes]) -> bytes | None:
    """Return definitions of the tools that the history has calls of, for models that want them declared."""
    names: dict[str, None] = {}
    for message in messages:
        if message.startswith(_ASSISTANT) and b'"tool_calls":' in message:
            names |= {call["function"]["name"]: None for call in from_json(message).get("tool_calls") or ()}
    about: dict[str, Any] = {
        "description": "Not available any more.",
        "parameters": {"type": "object", "properties": {}},
    }
    return to_json([{"type": "function", "function": {"name": name, **about}} for name in names]) if names else None


@lru_cache(maxsize=64)
def _with_schemas(tools: bytes, rule: Literal["object", "plain"]) -> bytes:
    definitions: list[dict[str, Any]] = from_json(tools)
    for definition in definitions:
        function = definition["function"]
        function["parameters"] = fitted_schema(function.get("parameters") or {}, rule)
    return to_json(definitions)


@lru_cache(maxsize=64)
def _with_short_descriptions(tools: bytes, limit: int) -> bytes:
    definitions: list[dict[str, Any]] = from_json(tools)
    for definition in definitions:
        text = definition["function"].get("description") or ""
        if len(text) > limit:
            definition["function"]["description"] = f"{text[: limit - 3]}..."
    return to_json(definitions)
