"""Put an answer of Claude together again as it was: thinking with its signatures, text and calls in their order.

What OpenAI's shape has no place for comes back in `reasoning_details`, in the shape that OpenRouter gave it.
"""

from __future__ import annotations

import re
from typing import Any, cast

from agent_common.json_reader import JsonLimits, read_json

from ...json_access import as_object, object_list, text_of

FORMAT = "anthropic-claude-v1"
THINKING = ("thinking", "redacted_thinking")
"""Types of blocks with thinking."""
TEXT = "reasoning.text"
ENCRYPTED = "reasoning.encrypted"
_BAD_NAME = re.compile(r"[^a-zA-Z0-9_-]")
_INPUT_LIMITS = JsonLimits(max_bytes=32 * 1024 * 1024, max_values=100_000)


def assistant_blocks(message: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the blocks of an assistant's message. Thinking that Claude has not signed is left out."""
    text = text_of(message.get("content"))
    calls = [_call(call) for call in object_list(message.get("tool_calls"))]
    blocks: list[dict[str, Any]] = []
    text_at = call_at = 0
    for detail in merged_details(message.get("reasoning_details")):
        thinking = _thinking(detail)
        if thinking is None:
            continue
        after = as_object(detail.get("after"))
        before_text = _position(after.get("text"), text_at, len(text))
        before_calls = _position(after.get("calls"), call_at, len(calls))
        blocks += [*_text(text[text_at:before_text]), *calls[call_at:before_calls], thinking]
        text_at = before_text
        call_at = before_calls
    blocks += [*_text(text[text_at:]), *calls[call_at:]]
    while blocks and blocks[-1]["type"] in THINKING:  # an answer that was cut off; Claude takes none that ends so
        blocks.pop()
    return blocks


def merged_details(given: object) -> list[dict[str, Any]]:
    """Return the details as one object a block, whether they were kept so or as the pieces of a stream."""
    if not given:
        return []  # the common case
    merged: dict[object, dict[str, Any]] = {}
    texts: dict[object, list[str]] = {}
    """The pieces of each text, joined once: a block may come in very many."""
    for number, detail in enumerate(object_list(given)):
        key = detail["index"] if isinstance(detail.get("index"), int) else ("without", number)
        merged.setdefault(key, {}).update({name: value for name, value in detail.items() if value is not None})
        texts.setdefault(key, []).append(str(detail.get("text") or ""))
    return [{**detail, "text": "".join(texts[key])} for key, detail in merged.items()]


def _thinking(detail: dict[str, Any]) -> dict[str, Any] | None:
    if detail.get("format") not in (None, FORMAT):
        return None
    match detail.get("type"), detail.get("signature"), detail.get("data"):
        case "reasoning.text", str(signature), _ if signature:
            return {"type": "thinking", "thinking": detail["text"], "signature": signature}
        case "reasoning.encrypted", _, str(data) if data:
            return {"type": "redacted_thinking", "data": data}
        case _:
            return None


def _position(value: object, least: int, most: int) -> int:
    return min(max(value, least), most) if isinstance(value, int) else least


def _text(text: str) -> list[dict[str, Any]]:
    """Return a text as a block; without a visible character it is none, because Claude refuses it."""
    return [{"type": "text", "text": text}] if text.strip() else []


def _call(call: dict[str, Any]) -> dict[str, Any]:
    function = as_object(call.get("function"))
    name = _BAD_NAME.sub("_", str(function.get("name") or ""))[:128] or "invalid_name"
    return {"type": "tool_use", "id": str(call.get("id")), "name": name, "input": _input(function.get("arguments"))}


def _input(arguments: object) -> dict[str, Any]:
    try:
        value: object = (
            read_json(arguments.encode(errors="replace"), _INPUT_LIMITS) if isinstance(arguments, str) else arguments
        )
    except ValueError:
        value = None
    if isinstance(value, dict):
        return cast("dict[str, Any]", value)
    return {"invalid_arguments": str(arguments)} if arguments else {}
