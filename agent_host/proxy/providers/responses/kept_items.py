"""Put an answer together again as it was: reasoning, texts and calls as the items that they came in.

What a chat message has no place for comes back in `reasoning_details`: each item in its order, reasoning whole, of
texts and calls what the message itself does not have. All of it is sent again, or nothing: OpenAI refuses half of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ...json_access import as_object, object_list, text_of

FORMAT = "openai-responses-v1"
_DETAIL = "openai.item"
_TEXTS = {"output_text": "text", "refusal": "refusal"}


def details_of(items: Iterable[tuple[int, dict[str, Any]]]) -> list[dict[str, Any]]:
    """Return what is to come back of the items of an answer, by their index; nothing if all of it is in the message."""
    kept = [(index, _without_words(item)) for index, item in items]
    if not any(_is_worth_keeping(item) for _, item in kept):
        return []
    return [{"type": _DETAIL, "format": FORMAT, "index": index, "item": item} for index, item in kept]


def kept_items(message: dict[str, Any]) -> list[dict[str, Any]] | None:
    """Return the items of an assistant's message as they came. None if it has none, or has been changed since."""
    details = [one for one in object_list(message.get("reasoning_details")) if one.get("format") == FORMAT]
    if not details:
        return None
    text = text_of(message.get("content"))
    calls = {str(call.get("id")): as_object(call.get("function")) for call in object_list(message.get("tool_calls"))}
    items: list[dict[str, Any]] = []
    used = 0
    for detail in details:
        item = as_object(detail.get("item"))
        match item.get("type"):
            case "message" if text:
                item, used = _with_text(item, text, used)
                items.append(item)
            case "message":
                pass  # it had no visible character, and is left out
            case "function_call":
                call = calls.pop(str(item.get("call_id")), None)
                if call is None:
                    return None
                items.append({**item, "name": str(call.get("name")), "arguments": str(call.get("arguments"))})
            case "reasoning" if not (item.get("encrypted_content") or item.get("content")):
                return None  # it could be found by its id only, and nothing is stored
            case _:
                items.append(item)
    if used != len(text) or calls:
        return None
    while items and items[-1].get("type") == "reasoning":  # nothing follows it
        items.pop()
    return items or None


def _is_worth_keeping(item: dict[str, Any]) -> bool:
    return item.get("type") not in ("message", "function_call") or bool(item.get("phase"))


def _without_words(item: dict[str, Any]) -> dict[str, Any]:
    """Return an item without what the message has too."""
    match item.get("type"):
        case "message":
            return {**item, "content": [_part_without_words(part) for part in object_list(item.get("content"))]}
        case "function_call":
            return {name: value for name, value in item.items() if name not in ("name", "arguments")}
        case _:
            return item


def _part_without_words(part: dict[str, Any]) -> dict[str, Any]:
    member = _TEXTS.get(str(part.get("type")), "text")
    rest = {name: value for name, value in part.items() if name != member}
    return {**rest, "length": len(str(part.get(member) or ""))}


def _with_text(item: dict[str, Any], text: str, used: int) -> tuple[dict[str, Any], int]:
    """Return a message with its share of the text, and how much of the text has been said with it."""
    parts: list[dict[str, Any]] = []
    for part in object_list(item.get("content")):
        length = part.get("length")
        end = used + (length if type(length) is int and length > 0 else 0)
        rest = {name: value for name, value in part.items() if name != "length"}
        parts.append({**rest, _TEXTS.get(str(part.get("type")), "text"): text[used:end]})
        used = end
    return {**item, "content": parts}, used
