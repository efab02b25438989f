"""Convert the events of a streamed response to chunks of a chat completion, one by one as they come."""

from __future__ import annotations

from typing import Any

from pydantic_core import to_json

from ...json_access import as_object, object_list
from ..http import ALIVE
from .errors import failure
from .item_words import words_of
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
        self._head = _head(self._shell)
        self._tail = b',"logprobs":null,"finish_reason":null}]}\n\n'
        self._latest = -1
        """Index of the latest item."""
        self._spoken: set[tuple[int, str]] = set()
        """Items by their index, and the members of a message that pieces of them went into."""
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
        kind = str(event.get("type"))
        if kind in _TEXTS:
            return self._say(self._index(event), _TEXTS[kind], str(event.get("delta") or ""))
        match kind:
            case "response.function_call_arguments.delta":
                return self._arguments(self._index(event), str(event.get("delta") or ""))
            case "response.output_item.added":
                return self._begin(self._index(event), as_object(event.get("item")))
            case "response.output_item.done":
                return self._end(self._index(event), as_object(event.get("item")))
            case "response.reasoning_summary_part.added" if event.get("summary_index"):
                return self._chunk({"reasoning": "\n\n"})
            case "response.created":
                return self._open(as_object(event.get("response")))
            case "response.completed" | "response.incomplete":
                response = as_object(event.get("response"))
                if response.get("status") == "failed" or as_object(response.get("error")):
                    raise failure(event)
                return self._finish(response, cut=kind == "response.incomplete")
            case "response.failed" | "error":
                raise failure(event)
            case _:
                return self._other(event)

    def _other(self, event: dict[str, Any]) -> bytes:
        """Read what is no event with words: progress of an item, an event that is newer than this code, or a whole
        answer or an error that was only labelled as a stream."""
        if as_object(event.get("error")):
            raise failure(event)
        if event.get("object") != "response":
            return ALIVE
        if event.get("status") == "failed":
            raise failure({"response": event})
        return self._open(event) + self._finish(event)

    def _open(self, response: dict[str, Any]) -> bytes:
        self._shell |= {"id": str(response.get("id") or ""), "model": str(response.get("model") or "")}
        self._head = _head(self._shell)
        return self._chunk({"role": "assistant", "content": ""})

    def _chunk(self, delta: dict[str, Any]) -> bytes:
        return b"%b%b%b" % (self._head, to_json(delta), self._tail)

    def _index(self, event: dict[str, Any]) -> int:
        """Return the index of an event's item, which some gateways leave out."""
        index: object = event.get("output_index")
        if type(index) is int:
            self._latest = index
        elif event["type"] == "response.output_item.added":
            self._latest += 1
        return self._latest

    def _say(self, index: int, member: str, words: str) -> bytes:
        if not words:
            return ALIVE
        self._spoken.add((index, member))
        return self._chunk({member: words})

    def _begin(self, index: int, item: dict[str, Any]) -> bytes:
        if item.get("type") != "function_call":
            return ALIVE
        number = self._calls[index] = len(self._calls)
        self._silent_calls.add(index)
        call = {"index": number, "id": item.get("call_id") or f"call_{number}", "type": "function"}
        function = {"name": str(item.get("name") or ""), "arguments": ""}
        return self._chunk({"tool_calls": [{**call, "function": function}]})

    def _end(self, index: int, item: dict[str, Any]) -> bytes:
        """Note a finished item, and return what no event has said of it."""
        self._items[index] = item
        if item.get("type") == "function_call":
            begin = b"" if index in self._calls else self._begin(index, item)
            silent = index in self._silent_calls
            return begin + (self._arguments(index, str(item.get("arguments") or "")) if silent else b"")
        words = {member: text for member, text in words_of(item).items() if (index, member) not in self._spoken}
        return b"".join(self._say(index, member, text) for member, text in words.items())

    def _end_all(self, items: list[dict[str, Any]]) -> bytes:
        """Take the items from the end of an answer whose events have finished none. Their indexes may not be those of
        the events, so that of each kind that has been said nothing is said again."""
        spoken = {member for _, member in self._spoken}
        called = bool(self._calls)
        chunks: list[bytes] = []
        for index, item in enumerate(items):
            new = not words_of(item).keys() & spoken
            if item.get("type") == "function_call":
                new = not called or index in self._silent_calls
            if new:
                chunks.append(self._end(index, item))
            self._items[index] = item
        return b"".join(chunks)

    def _arguments(self, index: int, piece: str) -> bytes:
        if not piece:
            return b""
        if index not in self._calls:
            return ALIVE  # its item brings them all when it is done
        self._silent_calls.discard(index)
        return self._chunk({"tool_calls": [{"index": self._calls[index], "function": {"arguments": piece}}]})

    def _finish(self, response: dict[str, Any], *, cut: bool = False) -> bytes:
        """Return the end: what is to come back, the finish reason, the usage, [DONE]."""
        self.complete = True
        late = b"" if self._items else self._end_all(object_list(response.get("output")))
        details = details_of(sorted(self._items.items()))
        kept = self._chunk({"reasoning_details": details}) if details else b""
        reason = finish_reason(response, called=bool(self._calls), cut=cut)
        end: dict[str, Any] = {"index": 0, "delta": {}, "logprobs": None, "finish_reason": reason}
        usage = as_object(response.get("usage"))
        reported: dict[str, Any] = {**self._shell, "choices": [], "usage": openai_usage(usage)}
        return b"%b%bdata: %b\n\n%b%b" % (
            late,
            kept,
            to_json({**self._shell, "choices": [end]}),
            b"data: %b\n\n" % to_json(reported) if usage else b"",
            DONE,
        )


def _head(shell: dict[str, Any]) -> bytes:
    """Return how each chunk of an answer begins, up to its delta."""
    return b'data: %b,"choices":[{"index":0,"delta":' % to_json(shell)[:-1]
