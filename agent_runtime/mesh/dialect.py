"""The messages of a request as its model takes them: with what it gave itself, and without what it refuses.

The messages of a session are the same for every model. What only one model is sent is added when a request is made, to
those messages alone, and the same way each time: so its prompt's beginning stays the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic_core import from_json, to_json  # noqa: TID251  our own messages

from agent_common.profiles import accepted_messages, accepted_tools
from agent_common.protocol import Profile

from ..ports import ModelRequest, ProviderFields

_ASSISTANT = b'{"role":"assistant"'
_TOOL = b'{"role":"tool"'
_REASONING = ("reasoning", "thinking")


def messages_for(request: ModelRequest, maker: str, profile: Profile) -> Sequence[bytes]:
    """Return the messages for a model. `maker` names the model as in the fields that it has given."""
    own = {at: fields for at, fields in request.fields.items() if fields.model == maker}
    messages = _restored(request, own, profile) if own else request.messages
    if _reasoning_required(own, profile):
        messages = [_with_blank_reasoning(message, profile) for message in messages]
    return accepted_messages(messages, profile)


def tools_for(request: ModelRequest, profile: Profile) -> bytes | None:
    """Return the tool definitions for a model."""
    return accepted_tools(request.tools, request.messages, profile)


# ---------------------------------------------------------------- what the model gave


def _restored(request: ModelRequest, own: dict[int, ProviderFields], profile: Profile) -> list[bytes]:
    messages = list(request.messages)
    for at, fields in own.items():
        running = at > request.turn_start
        reasoned = profile.reasoning in (None, "always") or (profile.reasoning == "turn" and running)
        kept = profile.kept_fields in (None, True) or (profile.kept_fields == "turn" and running)
        messages[at] = _message_with(messages[at], fields, reasoned, kept)
        after = at + 1
        while fields.ids and after < len(messages) and messages[after].startswith(_TOOL):
            messages[after] = _result_with(messages[after], fields)
            after += 1
    return messages


def _message_with(message: bytes, fields: ProviderFields, reasoned: bool, kept: bool) -> bytes:
    """Return a message with what its model gave: the reasoning, and what else is kept, if it takes them. The result
    is remembered, because each later request has it too."""
    known = fields.rendered.get((message, reasoned, kept))
    if known is not None:
        return known
    content: dict[str, Any] = from_json(message)
    for call, members in zip(content.get("tool_calls") or (), fields.calls, strict=False):
        call["id"] = fields.ids.get(call["id"], call["id"])
        if not kept:
            continue
        inner = members.get("function")
        call |= {name: value for name, value in members.items() if name != "function"}
        if isinstance(inner, dict):
            call["function"] |= inner
    taken = {name: reasoned if name.startswith(_REASONING) else kept for name in fields.members}
    content |= {name: value for name, value in fields.members.items() if taken[name]}
    if reasoned and fields.reasoning is not None:
        member, text = fields.reasoning
        if member == "content":
            thought = {"type": "thinking", "thinking": [{"type": "text", "text": text}]}
            spoken = [{"type": "text", "text": content["content"]}] if content.get("content") else []
            content["content"] = [thought, *spoken]
        else:
            content[member] = text
    fields.rendered[message, reasoned, kept] = rendered = to_json(content)
    return rendered


def _result_with(message: bytes, fields: ProviderFields) -> bytes:
    known = fields.rendered.get((message, False, False))
    if known is None:
        content: dict[str, Any] = from_json(message)
        content["tool_call_id"] = fields.ids.get(content["tool_call_id"], content["tool_call_id"])
        fields.rendered[message, False, False] = known = to_json(content)
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
