"""Make a request that was written for one model fit for another."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from pydantic_core import from_json, to_json  # noqa: TID251  a call that the proxy has checked

from agent_common.profiles import accepted_messages, accepted_tools
from agent_common.protocol import Profile

from ..catalog.catalog import CatalogModel
from ..json_access import as_object, object_list

_MESSAGE = frozenset(("role", "content", "name", "tool_calls", "tool_call_id", "refusal", "function_call"))
_CALL = frozenset(("id", "type", "function", "custom"))
_FUNCTION = frozenset(("name", "arguments"))
_THOUGHT = ("thinking", "reasoning", "redacted_thinking")
_LIMITS = ("max_tokens", "max_completion_tokens")
_FIRST = ("role", "tool_call_id", "content")
"""Members that a message begins with, in this order, when the profile's rules are applied."""


def adapt_to_other(payload: dict[str, Any], model: CatalogModel) -> None:
    """Take from the messages what the first model gave with them, such as its reasoning and signatures, which no other
    may see; give the limit of the answer the name that the other takes, and rewrite or leave out what it refuses."""
    for message in object_list(payload.get("messages")):
        _leave_out_given(message)
    _adapt_parameters(payload, model)
    if model.caching != "breakpoints":
        _leave_out_cache_marks(payload)
    with suppress(AttributeError, KeyError, TypeError):  # not well formed: its provider says what is wrong with it
        payload |= _accepted(payload, model.profile)
    if model.profile.reasoning_required and model.profile.reasoning in (None, "always"):
        for message in object_list(payload.get("messages")):
            if message.get("role") == "assistant":
                message["reasoning_content"] = model.profile.reasoning_blank or ""


def _leave_out_given(message: dict[str, Any]) -> None:
    _keep(message, _MESSAGE)
    for call in object_list(message.get("tool_calls")):
        _keep(call, _CALL)
        _keep(as_object(call.get("function")), _FUNCTION)
    if message.get("role") == "assistant" and isinstance(message.get("content"), list):
        _leave_out_thoughts(message)


def _adapt_parameters(payload: dict[str, Any], model: CatalogModel) -> None:
    profile = model.profile
    limits = [payload.pop(name) for name in _LIMITS if name in payload]
    if limits and profile.output_limit != "none":
        payload[profile.output_limit or "max_tokens"] = limits[0]
    if profile.temperature is False:
        payload.pop("temperature", None)
    if payload.get("tools"):
        _adapt_effort(payload, profile)
    if profile.tool_choice is False:
        payload.pop("tool_choice", None)
    if profile.prompt_cache_key is False or model.caching != "key":
        payload.pop("prompt_cache_key", None)


def _adapt_effort(payload: dict[str, Any], profile: Profile) -> None:
    """Ask for the effort that the model wants beside tools, and not for what the first one may have wanted."""
    if payload.get("reasoning_effort") == "none":
        del payload["reasoning_effort"]
    if profile.effort_with_tools is not None:
        payload["reasoning_effort"] = profile.effort_with_tools


def _accepted(payload: dict[str, Any], profile: Profile) -> dict[str, Any]:
    """Return the members of the payload that the profile has rules for, as the model takes them."""
    given = [to_json(_with_order(message)) for message in payload["messages"]]
    accepted: dict[str, Any] = {"messages": [from_json(message) for message in accepted_messages(given, profile)]}
    tools = accepted_tools(to_json(payload["tools"]) if payload.get("tools") else None, given, profile)
    if tools is not None:
        accepted["tools"] = from_json(tools)
    if payload.get("tool_choice") == "none" and profile.tool_choice_none is False:
        accepted["tool_choice"] = "auto"
    return accepted


def _with_order(message: dict[str, Any]) -> dict[str, Any]:
    return {name: message[name] for name in _FIRST if name in message} | message


def _keep(value: dict[str, Any], members: frozenset[str]) -> None:
    for name in value.keys() - members:
        del value[name]


def _leave_out_thoughts(message: dict[str, Any]) -> None:
    message["content"] = [part for part in object_list(message["content"]) if part.get("type") not in _THOUGHT] or (
        None if message.get("tool_calls") else ""
    )


def _leave_out_cache_marks(payload: dict[str, Any]) -> None:
    """Leave out the marks of a provider's cache. A text that is a part only to bear one is a text again."""
    for tool in object_list(payload.get("tools")):
        tool.pop("cache_control", None)
    for message in object_list(payload.get("messages")):
        parts = object_list(message.get("content"))
        marks = [part.pop("cache_control") for part in parts if "cache_control" in part]
        if marks and len(message["content"]) == 1 and parts[0].keys() == {"type", "text"}:
            message["content"] = parts[0]["text"]
