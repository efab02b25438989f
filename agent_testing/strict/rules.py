"""What a provider refuses: parameters, roles, ids, calls without results, and a history that is not as it was given."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from .dialects import FOREIGN_SIGNATURE, Dialect
from .errors import Refusal

Message = Mapping[str, Any]
Given = Mapping[str, Sequence[Message]]
"""Id of a call, or the text of an answer without calls -> the messages that were given with it."""
_MEMBERS = frozenset(("role", "content", "name", "tool_calls", "tool_call_id"))
_CALL_MEMBERS = frozenset(("id", "type", "function"))
_NOT_AT_TOP = frozenset(("oneOf", "anyOf", "allOf", "enum", "not"))
_NEWER = frozenset((
    "$schema", "$id", "$ref", "$defs", "definitions", "additionalProperties", "patternProperties", "propertyNames",
    "const", "exclusiveMinimum", "exclusiveMaximum", "oneOf", "allOf", "not", "if", "examples", "prefixItems",
))  # fmt: skip


def check_request(dialect: Dialect, fields: Mapping[str, Any]) -> None:
    """Raise Refusal for the first parameter that the provider does not take."""
    for name in ("max_tokens", "max_completion_tokens"):
        if fields.get(name) is not None and name not in dialect.limits:
            instead = f" Use '{dialect.limits[0]}' instead."
            text = f"Unsupported parameter: '{name}' is not supported with this model.{instead}"
            raise Refusal(text, name, "unsupported_parameter")
    if not dialect.stream_options and "stream_options" in fields:
        raise Refusal("body.stream_options: Extra inputs are not permitted", "stream_options", "extra_forbidden", 422)
    if not dialect.temperature and fields.get("temperature") not in (None, 1):
        text = "Unsupported value: 'temperature' does not support this value with this model. Only the default (1) is."
        raise Refusal(text, "temperature", "unsupported_value")
    for at, tool in enumerate(fields.get("tools") or ()):
        function = tool["function"]
        if re.fullmatch(dialect.tool_names, function["name"]) is None:
            raise Refusal(f"Invalid 'tools[{at}].function.name': {function['name']!r} is no valid name.", "tools")
        _check_schema(dialect, at, function)
        if dialect.max_description and len(function.get("description") or "") > dialect.max_description:
            text = f"Invalid 'tools[{at}].function.description': string too long."
            raise Refusal(text, "tools", "string_above_max_length")


def _check_schema(dialect: Dialect, at: int, function: Message) -> None:
    schema: Message = function.get("parameters") or {"type": "object"}
    if dialect.schemas != "any" and (schema.get("type") != "object" or schema.keys() & _NOT_AT_TOP):
        text = "schema must have type 'object' and not have 'oneOf'/'anyOf'/'allOf'/'enum'/'not' at the top level."
        where = f"tools[{at}].function.parameters"
        raise Refusal(f"Invalid schema for function '{function['name']}': {text}", where, "invalid_function_parameters")
    if dialect.schemas == "plain" and (found := next(_newer_keywords(schema), None)):
        where = f"tools[0].function_declarations[{at}].parameters"
        raise Refusal(f"Invalid JSON payload received. Unknown name \"{found}\" at '{where}': Cannot find field.")


def _newer_keywords(schema: Any, *, named: bool = False) -> Iterator[str]:
    """Yield the keywords that OpenAPI does not have. `named`: the members are names of properties."""
    members = cast("dict[str, Any]", schema) if isinstance(schema, dict) else {}
    for name, value in members.items():
        if name in _NEWER and not named:
            yield name
        if name not in ("enum", "required", "default") or named:
            for one in cast("list[Any]", value) if isinstance(value, list) else [value]:
                yield from _newer_keywords(one, named=name == "properties" and not named)


def check_messages(dialect: Dialect, messages: Sequence[Message], given: Given) -> None:
    """Raise Refusal for the first broken rule of the conversation."""
    if not messages:
        raise Refusal("messages: at least one message is required", "messages")
    last_user = max((at for at, one in enumerate(messages) if one.get("role") == "user"), default=0)
    open_calls: list[str] = []
    for at, message in enumerate(messages):
        role = message.get("role")
        before = messages[at - 1].get("role") if at else None
        if role == "tool":
            if message.get("tool_call_id") not in open_calls:
                raise Refusal(
                    f"messages[{at}]: the tool result {message.get('tool_call_id')!r} has no call", "messages"
                )
            open_calls.remove(str(message["tool_call_id"]))
        elif open_calls:
            raise Refusal(f"messages[{at}]: the call {open_calls[0]!r} has no result before this message", "messages")
        if role == "user" and before == "tool" and not dialect.user_after_tool:
            raise Refusal("Unexpected role 'user' after role 'tool'", code="invalid_request_message_order")
        if role == "assistant":
            open_calls = [str(call["id"]) for call in message.get("tool_calls") or ()]
            _check_answer(dialect, at, message, given, current=at > last_user)
        elif unknown := sorted(message.keys() - _MEMBERS):
            raise Refusal(f"Unknown parameter: 'messages[{at}].{unknown[0]}'.", f"messages[{at}]", "unknown_parameter")
    if open_calls:
        raise Refusal(f"the call {open_calls[0]!r} has no result", "messages")


def _check_answer(dialect: Dialect, at: int, message: Message, given: Given, *, current: bool) -> None:
    calls: Sequence[Message] = message.get("tool_calls") or ()
    for call in calls:
        if re.fullmatch(dialect.call_ids, call["id"]) is None:
            nine = f"Tool call id was {call['id']} but must be a-z, A-Z, 0-9, with a length of 9."
            long = f"Invalid 'messages[{at}].tool_calls[0].id': string too long."
            raise Refusal(nine if dialect.id_style == "nine" else long, "messages", "string_above_max_length")
    text = texts(message.get("content"))
    if not calls and not text.strip():
        raise Refusal(f"messages[{at}]: an assistant's message must have content or tool_calls", "messages")
    known = given.get(str(calls[0]["id"]) if calls else text, ())
    if not known:
        _check_foreign(dialect, at, message, calls, current=current)
    elif any(_extras(message) == _extras(one) for one in known):
        return
    elif dialect.wants == "always" or (dialect.wants == "turn" and current and calls):
        raise Refusal(dialect.missing.format(at=at))
    elif any(_extras(message).values()):
        raise Refusal(f"messages[{at}]: what was given with it has been changed", "messages")


def _check_foreign(dialect: Dialect, at: int, message: Message, calls: Sequence[Message], *, current: bool) -> None:
    """Refuse what another provider gave. A blank stands for reasoning where every answer must have some, and Google's
    own value for the signature of a call."""
    named = dialect.reasoning == "reasoning_content" and not str(message.get("reasoning_content") or "").strip()
    strange = sorted(message.keys() - _MEMBERS - ({"reasoning_content"} if named else set[str]()))
    if dialect.signed_calls and calls:
        signed = calls[0].get("extra_content") == FOREIGN_SIGNATURE
        if current and not signed:
            raise Refusal(dialect.missing.format(at=at))
        calls = calls[1:] if signed else calls
    strange += [name for call in calls for name in call.keys() - _CALL_MEMBERS]
    strange += ["content"] if isinstance(message.get("content"), list) else []
    if strange:
        raise Refusal(f"Unknown parameter: 'messages[{at}].{strange[0]}'.", f"messages[{at}]", "unknown_parameter")
    if dialect.wants == "always" and not isinstance(message.get("reasoning_content"), str):
        raise Refusal(dialect.missing.format(at=at))


def _extras(message: Message) -> dict[str, Any]:
    """Return what a message has beside text and calls."""
    calls = [
        {name: value for name, value in call.items() if name not in _CALL_MEMBERS}
        for call in message.get("tool_calls") or ()
    ]
    return {
        "thinking": [part for part in _parts(message.get("content")) if part.get("type") == "thinking"],
        "members": {name: value for name, value in message.items() if name not in _MEMBERS},
        "calls": calls if any(calls) else [],
    }


def texts(content: Any) -> str:
    """Return the text of a message's content."""
    return content if isinstance(content, str) else "".join(str(part.get("text", "")) for part in _parts(content))


def _parts(content: Any) -> Sequence[Message]:
    return cast("list[Message]", content) if isinstance(content, list) else ()
