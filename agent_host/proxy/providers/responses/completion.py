"""Convert an answer that is not streamed."""

from __future__ import annotations

from typing import Any

from ...json_access import as_object, object_list
from .errors import failure
from .item_words import words_of
from .kept_items import details_of
from .usage import finish_reason, openai_usage


def to_completion(response: dict[str, Any], created: int) -> dict[str, Any]:
    """Return the chat completion for a response. Raises ProviderFailed if it has failed."""
    if response.get("status") == "failed":
        raise failure({"response": response})
    spoken: dict[str, list[str]] = {"content": [], "refusal": [], "reasoning": []}
    calls: list[dict[str, Any]] = []
    items = object_list(response.get("output"))
    for item in items:
        for member, words in words_of(item).items():
            spoken[member].append(words)
        if item.get("type") == "function_call":
            function = {"name": str(item.get("name") or ""), "arguments": str(item.get("arguments") or "{}")}
            calls.append({"id": item.get("call_id") or f"call_{len(calls)}", "type": "function", "function": function})
    text = "".join(spoken["content"])
    refusal = "".join(spoken["refusal"])
    details = details_of(enumerate(items))
    message: dict[str, Any] = {"role": "assistant", "content": text or None, "refusal": refusal or None}
    message |= {"reasoning": "\n\n".join(spoken["reasoning"])} if spoken["reasoning"] else {}
    message |= {"reasoning_details": details} if details else {}
    message |= {"tool_calls": calls} if calls else {}
    reason = finish_reason(response, called=bool(calls))
    return {
        "id": str(response.get("id") or ""),
        "object": "chat.completion",
        "created": created,
        "model": str(response.get("model") or ""),
        "choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": reason}],
        "usage": openai_usage(as_object(response.get("usage"))),
    }
