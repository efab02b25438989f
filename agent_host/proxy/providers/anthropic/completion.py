"""Convert an answer that is not streamed."""

from __future__ import annotations

from typing import Any

from pydantic_core import to_json

from ...json_access import as_object, object_list
from .assistant import ENCRYPTED, FORMAT, TEXT
from .usage import finish_reason, openai_usage


def to_completion(answer: dict[str, Any], created: int) -> dict[str, Any]:
    """Return OpenAI's completion for a message of Anthropic's."""
    text = ""
    reasoning = ""
    details: list[dict[str, Any]] = []
    calls: list[dict[str, Any]] = []
    for index, block in enumerate(object_list(answer.get("content"))):
        after = {"after": {"text": len(text), "calls": len(calls)}} if text or calls else {}
        match block.get("type"):
            case "text":
                text += str(block.get("text") or "")
            case "thinking":
                reasoning += str(block.get("thinking") or "")
                kept = {"text": block.get("thinking"), "signature": block.get("signature")}
                details.append({"type": TEXT, **kept, "format": FORMAT, "index": index, **after})
            case "redacted_thinking" if block.get("data"):
                details.append({"type": ENCRYPTED, "data": block["data"], "format": FORMAT, "index": index, **after})
            case "tool_use":
                arguments = to_json(block.get("input") or {}).decode()
                function = {"name": str(block.get("name") or ""), "arguments": arguments}
                calls.append({"id": block.get("id") or f"call_{len(calls)}", "type": "function", "function": function})
            case _:
                pass
    message: dict[str, Any] = {"role": "assistant", "content": text or None, "refusal": None}
    message |= {"reasoning": reasoning} if reasoning else {}
    message |= {"reasoning_details": details} if details else {}
    message |= {"tool_calls": calls} if calls else {}
    stop = answer.get("stop_reason")
    choice = {
        "index": 0,
        "message": message,
        "logprobs": None,
        "finish_reason": finish_reason(stop, called=bool(calls)),
    }
    return {
        "id": str(answer.get("id") or ""),
        "object": "chat.completion",
        "created": created,
        "model": str(answer.get("model") or ""),
        "choices": [{**choice, "native_finish_reason": stop}],
        "usage": openai_usage(as_object(answer.get("usage"))),
    }
