"""Convert an answer that is not streamed."""

from __future__ import annotations

from typing import Any

from ...json_access import as_object, object_list
from .errors import failure
from .kept_items import details_of
from .usage import finish_reason, openai_usage


def to_completion(response: dict[str, Any], created: int) -> dict[str, Any]:
    """Return the chat completion for a response. Raises ProviderFailed if it has failed."""
    if response.get("status") == "failed":
        raise failure({"response": response})
    text, refusal, thoughts = "", "", list[str]()
    calls: list[dict[str, Any]] = []
    items = object_list(response.get("output"))
    for item in items:
        match item.get("type"):
            case "message":
                for part in object_list(item.get("content")):
                    text += str(part.get("text") or "")
                    refusal += str(part.get("refusal") or "")
            case "reasoning":
                parts = object_list(item.get("summary")) or object_list(item.get("content"))
                thoughts += [str(part.get("text") or "") for part in parts]
            case "function_call":
                function = {"name": item["name"], "arguments": str(item.get("arguments") or "{}")}
                calls.append({"id": item["call_id"], "type": "function", "function": function})
            case _:
                pass
    details = details_of(enumerate(items))
    message: dict[str, Any] = {"role": "assistant", "content": text or None, "refusal": refusal or None}
    message |= {"reasoning": "\n\n".join(thoughts)} if thoughts else {}
    message |= {"reasoning_details": details} if details else {}
    message |= {"tool_calls": calls} if calls else {}
    reason = finish_reason(response, called=bool(calls))
    return {
        "id": str(response.get("id")),
        "object": "chat.completion",
        "created": created,
        "model": str(response.get("model")),
        "choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": reason}],
        "usage": openai_usage(as_object(response.get("usage"))),
    }
