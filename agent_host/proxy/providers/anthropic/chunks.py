"""Convert the events of Anthropic's stream to OpenAI's chunks, one by one as they come."""

from __future__ import annotations

from typing import Any

from pydantic_core import to_json

from ...json_access import as_object, object_list
from ..http import ALIVE
from .assistant import ENCRYPTED, FORMAT, TEXT
from .errors import failure
from .usage import finish_reason, openai_usage

DONE = b"data: [DONE]\n\n"
_NO_ARGUMENTS = {"type": "input_json_delta", "partial_json": "{}"}
"""Of a call that may have been cut off before its arguments began."""


class ChunkWriter:
    """Writes the chunks of one answer."""

    def __init__(self, created: int) -> None:
        self._shell: dict[str, Any] = {"id": "", "object": "chat.completion.chunk", "created": created, "model": ""}
        self._head = _head(self._shell)
        self._usage: dict[str, Any] = {}
        self._tail = b',"logprobs":null,"finish_reason":null}]}\n\n'
        self._block = -1
        """Index of the latest block."""
        self._calls: dict[int, int] = {}
        """Index of a block, and the index of its call."""
        self._unsaid: dict[int, dict[str, Any]] = {}
        """What a block has begun with, as the delta that says it unless others do: a signature, or arguments."""
        self._characters = 0
        self.stopped = False
        """Whether the model has ended its answer."""
        self.complete = False
        """Whether [DONE] has been written."""

    def feed(self, event: dict[str, Any]) -> bytes:
        """Return the chunks of an event. Raises ProviderFailed for an event that reports an error."""
        match event.get("type"):
            case "content_block_delta":
                return self._delta(self._index(event), as_object(event.get("delta")))
            case "content_block_start":
                return self._start(self._index(event), as_object(event.get("content_block")))
            case "content_block_stop":
                return self._say_rest(self._index(event))
            case "message_start":
                return self._open(as_object(event.get("message")))
            case "message_delta":
                self._merge_usage(as_object(event.get("usage")))
                return self.usage_event() if self.stopped else self._stop(as_object(event.get("delta")))
            case "message_stop" if self.stopped or self._characters or self._calls:
                return self.finish()
            case "error":
                raise failure(event)
            case _:
                return self._other(event)

    def _other(self, event: dict[str, Any]) -> bytes:
        """Read what is no event with words: a ping, an event that is newer than this code, or a whole answer or an
        error that was only labelled as a stream."""
        if as_object(event.get("error")):
            raise failure(event)
        if event.get("type") not in ("message", None) or not isinstance(event.get("content"), list):
            return ALIVE
        chunks = [self._open(event)]
        for index, block in enumerate(object_list(event["content"])):
            chunks += [self._start(index, block), self._say_rest(index)]
        return b"".join([*chunks, self._end(event.get("stop_reason"))])

    def finish(self) -> bytes:
        """Return what is missing of the end, up to [DONE]."""
        if self.complete:
            return b""
        self.complete = True
        return (b"" if self.stopped else self._end(None)) + DONE

    def usage_event(self) -> bytes:
        """Return the usage so far as an event of its own, or nothing if none was reported."""
        if not self._usage:
            return b""
        return b"data: %b\n\n" % to_json({**self._shell, "choices": [], "usage": openai_usage(self._usage)})

    def _open(self, message: dict[str, Any]) -> bytes:
        self._shell |= {"id": str(message.get("id") or ""), "model": str(message.get("model") or "")}
        self._head = _head(self._shell)
        self._merge_usage(as_object(message.get("usage")))
        return self._chunk({"role": "assistant", "content": ""})

    def _stop(self, delta: dict[str, Any]) -> bytes:
        reason: object = delta.get("stop_reason")
        return self._end(reason) if reason else ALIVE

    def _end(self, reason: object) -> bytes:
        """Return the finish reason and the usage so far. What is written behind them nobody has to wait for."""
        self.stopped = True
        late = [self._say_rest(index) for index, delta in tuple(self._unsaid.items()) if delta != _NO_ARGUMENTS]
        finish = finish_reason(reason, called=bool(self._calls))
        choice: dict[str, Any] = {"index": 0, "delta": {}, "logprobs": None, "finish_reason": finish}
        end = {**self._shell, "choices": [{**choice, "native_finish_reason": reason}]}
        return b"%bdata: %b\n\n%b" % (b"".join(late), to_json(end), self.usage_event())

    def _merge_usage(self, usage: dict[str, Any]) -> None:
        """Take over running totals, which never fall; a later report may leave some out, or have 0 for them."""
        self._usage |= {name: value for name, value in usage.items() if value or name not in self._usage}

    def _chunk(self, delta: dict[str, Any]) -> bytes:
        return b"%b%b%b" % (self._head, to_json(delta), self._tail)

    def _index(self, event: dict[str, Any]) -> int:
        """Return the index of an event's block, which some gateways leave out."""
        index: object = event.get("index")
        if type(index) is int:
            self._block = index
        elif event["type"] == "content_block_start":
            self._block += 1
        return self._block

    def _start(self, index: int, block: dict[str, Any]) -> bytes:
        match block.get("type"):
            case "text" if block.get("text"):
                return self._text(str(block["text"]))
            case "thinking":
                if block.get("signature"):
                    self._unsaid[index] = {"type": "signature_delta", "signature": block["signature"]}
                return self._detail({"type": TEXT, "text": str(block.get("thinking") or "")}, index, first=True)
            case "redacted_thinking" if block.get("data"):
                return self._detail({"type": ENCRYPTED, "data": block["data"]}, index, first=True)
            case "tool_use":
                number = self._calls[index] = len(self._calls)
                given = to_json(block.get("input") or {}).decode()
                self._unsaid[index] = {"type": "input_json_delta", "partial_json": given}
                call = {"index": number, "id": block.get("id") or f"call_{number}", "type": "function"}
                function = {"name": str(block.get("name") or ""), "arguments": ""}
                return self._chunk({"tool_calls": [{**call, "function": function}]})
            case _:
                return b""

    def _say_rest(self, index: int) -> bytes:
        """Return what a block has begun with and no delta has said."""
        return self._delta(index, self._unsaid.get(index, {}))

    def _delta(self, index: int, delta: dict[str, Any]) -> bytes:
        match delta.get("type"):
            case "text_delta":
                return self._text(str(delta.get("text") or ""))
            case "input_json_delta":
                return self._arguments(index, str(delta.get("partial_json") or ""))
            case "thinking_delta":
                return self._detail({"type": TEXT, "text": str(delta.get("thinking") or "")}, index)
            case "signature_delta" if delta.get("signature"):
                self._unsaid.pop(index, None)
                return self._detail({"type": TEXT, "signature": delta["signature"]}, index)
            case _:
                return b""

    def _text(self, text: str) -> bytes:
        self._characters += len(text)
        return self._chunk({"content": text})

    def _arguments(self, index: int, piece: str) -> bytes:
        if index not in self._calls:
            return ALIVE  # those of a call that the provider's server runs itself
        if not piece:
            return b""
        self._unsaid.pop(index, None)
        return self._chunk({"tool_calls": [{"index": self._calls[index], "function": {"arguments": piece}}]})

    def _detail(self, detail: dict[str, Any], index: int, *, first: bool = False) -> bytes:
        """Return a piece of thinking: its text for people, and what is to come back. The first piece of a block says
        what was before it, unless that is nothing."""
        after = (
            {"text": self._characters, "calls": len(self._calls)}
            if first and (self._characters or self._calls)
            else None
        )
        placed = {**detail, "format": FORMAT, "index": index, **({"after": after} if after else {})}
        text = {"reasoning": detail["text"]} if detail.get("text") else {}
        return self._chunk({**text, "reasoning_details": [placed]})


def _head(shell: dict[str, Any]) -> bytes:
    """Return how each chunk of an answer begins, up to its delta."""
    return b'data: %b,"choices":[{"index":0,"delta":' % to_json(shell)[:-1]
