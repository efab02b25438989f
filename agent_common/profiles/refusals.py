"""Rewrite what a model refuses of a request's messages and tools, the same way each time."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import groupby
from typing import Any

from pydantic_core import from_json, to_json  # noqa: TID251  messages of our own, or of a call that was checked

from ..protocol import Profile
from .call_ids import with_accepted_ids
from .roles import with_single_calls, without_system_role
from .tool_schemas import SchemaRule, fitted_schema, with_plain_names

_ASSISTANT = b'{"role":"assistant"'
_TOOL = b'{"role":"tool"'
_USER = b'{"role":"user"'
_NULL_CONTENT = b'{"role":"assistant","content":null'
_BETWEEN = b'{"role":"assistant","content":"I have the result."}'
"""Stands between a tool's result and a user's message for models that refuse the one behind the other."""
_CACHED_TOOLS = 8
"""Lists of tools that are kept as they were rewritten: they are long, and the same in each step of a session."""


def accepted_messages(messages: Sequence[bytes], profile: Profile) -> Sequence[bytes]:
    """Return the messages as the model takes them. Each is compact JSON that begins with `role`, then `tool_call_id`
    and `content` where it has them."""
    if profile.signature_blank is not None and profile.kept_fields is not False:
        messages = [_with_signature(message, profile.signature_blank) for message in messages]
    if profile.system_role is False:
        messages = without_system_role(messages)
    messages = with_accepted_ids(messages, profile.call_ids)
    if profile.several_calls is False:
        messages = with_single_calls(messages)
    if profile.null_content is False:
        messages = [one.replace(b"null", b'""', 1) if one.startswith(_NULL_CONTENT) else one for one in messages]
    if False in (profile.user_after_tool, profile.two_users, profile.system_role):
        messages = _ordered(messages, profile)
    return messages


def accepted_tools(tools: bytes | None, messages: Sequence[bytes], profile: Profile) -> bytes | None:
    """Return the list of tool definitions as the model takes it. None: there are none, and it wants none."""
    if tools is None:
        return _tools_of_calls(messages) if profile.tools_with_calls else None
    if profile.tool_schemas not in (None, "any"):
        tools = _with_schemas(tools, profile.tool_schemas)
    if profile.argument_names == "plain":
        tools = _with_names(tools)
    if profile.description_limit is not None:
        tools = _with_short_descriptions(tools, profile.description_limit)
    return tools


def _with_signature(message: bytes, blank: str) -> bytes:
    """Return a message whose calls count as signed: the first of several bears the signature. Those of the model's own
    have it, in their extra content."""
    if not message.startswith(_ASSISTANT) or b'"tool_calls":' not in message or b'"extra_content":' in message:
        return message
    content: dict[str, Any] = from_json(message)
    for call in (content.get("tool_calls") or ())[:1]:
        call["extra_content"] = {"google": {"thought_signature": blank}}
    return to_json(content)


def _ordered(messages: Sequence[bytes], profile: Profile) -> list[bytes]:
    joins = False in (profile.two_users, profile.system_role)  # the system's are the user's then
    ordered: list[bytes] = []
    for is_users, run in groupby(messages, lambda message: message.startswith(_USER)):
        several = list(run)
        if is_users and profile.user_after_tool is False and ordered and ordered[-1].startswith(_TOOL):
            ordered.append(_BETWEEN)
        ordered += [_joined(several)] if is_users and joins and len(several) > 1 else several
    return ordered


def _joined(messages: Sequence[bytes]) -> bytes:
    """Return one message of a user with what several say: a text, or parts if one of them has parts."""
    contents = [from_json(message).get("content") for message in messages]
    if all(isinstance(content, str) for content in contents):
        return to_json({"role": "user", "content": "\n\n".join(contents)})
    parts = [[{"type": "text", "text": one}] if isinstance(one, str) else one or [] for one in contents]
    return to_json({"role": "user", "content": [part for several in parts for part in several]})


def _tools_of_calls(messages: Sequence[bytes]) -> bytes | None:
    """Return definitions of the tools that the history has calls of, for models that want them declared."""
    names: dict[str, None] = {}
    for message in messages:
        if message.startswith(_ASSISTANT) and b'"tool_calls":' in message:
            calls: list[dict[str, Any]] = from_json(message).get("tool_calls") or []
            names |= {call["function"]["name"]: None for call in calls if "function" in call}
    about: dict[str, Any] = {
        "description": "Not available any more.",
        "parameters": {"type": "object", "properties": {}},
    }
    return to_json([{"type": "function", "function": {"name": name, **about}} for name in names]) if names else None


@lru_cache(maxsize=_CACHED_TOOLS)
def _with_schemas(tools: bytes, rule: SchemaRule) -> bytes:
    definitions: list[dict[str, Any]] = from_json(tools)
    for function in _functions(definitions):
        fitted = fitted_schema(function.get("parameters") or {}, rule)
        if rule == "filled" and not fitted.get("properties"):
            function.pop("parameters", None)  # a tool without arguments
        else:
            function["parameters"] = fitted
    return to_json(definitions)


@lru_cache(maxsize=_CACHED_TOOLS)
def _with_names(tools: bytes) -> bytes:
    definitions: list[dict[str, Any]] = from_json(tools)
    for function in _functions(definitions):
        schema: dict[str, Any] = function.get("parameters") or {}
        text, fitted = with_plain_names(function.get("description") or "", schema)
        if fitted is not schema:
            function |= {"description": text, "parameters": fitted}
    return to_json(definitions)


@lru_cache(maxsize=_CACHED_TOOLS)
def _with_short_descriptions(tools: bytes, limit: int) -> bytes:
    definitions: list[dict[str, Any]] = from_json(tools)
    for function in _functions(definitions):
        text = function.get("description") or ""
        if len(text) > limit:
            function["description"] = f"{text[: limit - 3]}..."
    return to_json(definitions)


def _functions(definitions: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the functions among the tools; there are tools of other types too."""
    return [definition["function"] for definition in definitions if "function" in definition]
