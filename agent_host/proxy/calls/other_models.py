"""Make a request that was written for one model fit for another."""

from __future__ import annotations

from typing import Any

from agent_common.protocol import Profile

from ..json_access import as_object, object_list

_MESSAGE = frozenset(("role", "content", "name", "tool_calls", "tool_call_id", "refusal", "function_call"))
_CALL = frozenset(("id", "type", "function", "custom"))
_FUNCTION = frozenset(("name", "arguments"))
_THOUGHT = ("thinking", "reasoning", "redacted_thinking")
_LIMITS = ("max_tokens", "max_completion_tokens")


def adapt_to_other(payload: dict[str, Any], profile: Profile) -> None:
    """Take from the messages what the first model gave with them, such as its reasoning and signatures, which no other
    may see; give the limit of the answer the name that the other takes, and leave out what it refuses."""
    for message in object_list(payload.get("messages")):
        _keep(message, _MESSAGE)
        for call in object_list(message.get("tool_calls")):
            _keep(call, _CALL)
            _keep(as_object(call.get("function")), _FUNCTION)
        if message.get("role") == "assistant" and isinstance(message.get("content"), list):
            _leave_out_thoughts(message)
    limits = [payload.pop(name) for name in _LIMITS if name in payload]
    if limits and profile.output_limit != "none":
        payload[profile.output_limit or "max_tokens"] = limits[0]
    if profile.temperature is False:
        payload.pop("temperature", None)
    if profile.prompt_cache_key is False:
        payload.pop("prompt_cache_key", None)


def _keep(value: dict[str, Any], members: frozenset[str]) -> None:
    for name in value.keys() - members:
        del value[name]


def _leave_out_thoughts(message: dict[str, Any]) -> None:
    message["content"] = [part for part in object_list(message["content"]) if part.get("type") not in _THOUGHT] or (
        None if message.get("tool_calls") else ""
    )
