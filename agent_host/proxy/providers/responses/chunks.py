"""Convert the events of a streamed response to chunks of a chat completion, one by one as they come."""

from __future__ import annotations

from typing import Any

from pydantic_core import to_json

from ...json_access import as_object, object_list
from ..http import ALIVE
from .errors import failure
from .kept_items import details_of
from .usage import finish_reason, openai_usage

DONE = b"data: [DONE]\n\n"
_TEXTS = {
    "response.output_text.delta": "content",
    "response.reasoning_summary_text.delta": "reasoning",
    "response.reasoning_text.delta": "reasoning",
    "response.refusal.delta": "refusal",
}
"""Events with a piece of text, and the member of a delta that it goes into."""


class ChunkWriter:
    """Writes the chunks of one answer."""

    def __init__(self, created: int) -> None:
        self._shell: dict[str, Any] = {"id": "", "object": "chat.completion.chunk", "created": created, "model": ""}
        self._head = b""
        self._tail = b',"logprobs":null,"finish_reason":null}]}\n\n'
        self._calls: dict[int, int] = {}
        """Index of an item, and the index of its call."""
        self._silent_calls: set[int] = set()
        """Items of calls whose arguments have not come yet."""
        self._items: dict[int, dict[str, Any]] = {}
        """The finished items by their index."""
        self.complete = False
        """Whether the end has been written."""

    def feed(self, event: dict[str, Any]) -> bytes:
        """Return the chunks of an event. Raises ProviderFailed for an event that reports an error."""
        kind = event.get("type")
        if kind in _TEXTS:
            return self._chunk({_TEXTS[kind]: event["delta"]})
        match kind:
            case "response.function_call_arguments.delta":
                return self._arguments(event["output_index"], event["delta"])
            case "response.output_item.added" | "response.output_item.done":
                return self._item(kind, event["output_index"], as_object(event.get("item")))
            case "response.reasoning_summary_part.added" if event.get("summary_index"):
                return self._chunk({"reasoning": "\n\n"})
            case "response.created":
                return self._open(as_object(event.get("response")))
            case "response.completed" | "response.incomplete":
                return self._finish(as_object(event.get("response")))
            case "response.failed" | "error":
                raise failure(event)
            case _:
                return ALIVE  # progress of an item, or an event that is newer than this code

    def _open(self, response: dict[str, Any]) -> bytes:
        self._shell |= {"id": str(response.get("id")), "model": str(response.get("model"))}
        self._head = b'data: %b,"choices":[{"index":0,"delta":' % to_json(self._shell)[:-1]
        return self._chunk({"role": "assistant", "content": ""})

    def _chunk(self, delta: dict[str, Any]) -> bytes:
        return b"%b%b%b" % (self._head, to_json(delta), self._tail)

    def _item(self, kind: str, index: int, item: dict[str, Any]) -> bytes:
        """Note a finished item, and begin or end a call."""
        if kind == "response.output_item.done":
            self._items[index] = item
            silent = index in self._silent_calls
            return self._arguments(index, str(item.get("arguments") or "")) if silent else b""
        if item.get("type") != "function_call":
            return b""
        number = self._calls[index] = len(self._calls)
        self._silent_calls.add(index)
        function = {"name": item["name"], "arguments": ""}
        return self._chunk(
            {"tool_calls": [{"index": number, "id": item["call_id"], "type": "function", "function": function}]}
        )

    def _arguments(self, index: int, piece: str) -> bytes:
        if not piece:
            return b""
        self._silent_calls.discard(index)
        return self._chunk({"tool_calls": [{"index": self._calls[index], "function": {"arguments": piece}}]})

    def _finish(self, response: dict[str, Any]) -> bytes:
        """Return the end: what is to come back, the finish reason, the usage, [DONE]."""
        self.complete = True
        items = self._items or dict(enumerate(object_list(response.get("output"))))
        details = details_of(sorted(items.items()))
        kept = self._chunk({"reasoning_details": details}) if details else b""
        reason = finish_reason(response, called=bool(self._calls))
        end: dict[str, Any] = {"index": 0, "delta": {}, "logprobs": None, "finish_reason": reason}
        usage = as_object(response.get("usage"))
        reported: dict[str, Any] = {**self._shell, "choices": [], "usage": openai_usage(usage)}
        return b"%bdata: %b\n\n%b%b" % (
            kept,
            to_json({**self._shell, "choices": [end]}),
            b"data: %b\n\n" % to_json(reported) if usage else b"",
            DONE,
        )
