"""Parse a streamed completion: server-sent lines in, model events out."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, cast

from pydantic_core import from_json  # noqa: TID251  reads small events only

from agent_common.json_reader import JsonLimits, JsonRefused, read_json, run_by_size
from agent_common.protocol import Usage, is_object

from ..errors import ModelError
from ..ports import CallPiece, CallStarted, Completion, ModelEvent, ReasoningPiece, TextPiece, ToolCall
from . import errors
from .usage import usage_of

_STOP: dict[str, Literal["stop", "length", "content-filter", "tool-calls", "other"]] = {
    "stop": "stop",
    "length": "length",
    "content_filter": "content-filter",
    "tool_calls": "tool-calls",
    "function_call": "tool-calls",
}


MAX_LINE_BYTES = 8 * 1024 * 1024
EVENT_LIMITS = JsonLimits(max_bytes=MAX_LINE_BYTES, max_values=100_000, refuse_ambiguous=False)
MAX_CALLS = 256
"""Maximum tool calls in one answer."""
_SURROGATE_ESCAPE = re.compile(rb"\\u[dD]")


class EventLines:
    """Splits a byte stream into the payloads of its `data:` lines. Raises ModelError for a line that is too long."""

    def __init__(self) -> None:
        self._rest = bytearray()

    def feed(self, data: bytes) -> Iterator[bytes]:
        first, *more = data.split(b"\n")
        self._rest += first
        if more:
            lines = bytes(self._rest), *more[:-1]
            self._rest = bytearray(more[-1])
            for line in lines:
                if line.startswith(b"data:"):
                    yield line[5:].strip()
        if len(self._rest) > MAX_LINE_BYTES:
            raise ModelError(f"the model's stream holds a line of more than {MAX_LINE_BYTES} bytes")


def read_event(payload: bytes) -> dict[str, Any] | None:
    """Return the event in a `data:` payload; None for the end of the stream. Raises ModelError.

    Payloads larger than json_reader.INLINE_BYTES are for `read_large_event`.
    """
    if payload == b"[DONE]":
        return None
    try:
        # A byte holds at most one value, and the parser limits nesting itself: small events need no prior count.
        small = len(payload) <= EVENT_LIMITS.max_values
        event: Any = from_json(payload, allow_inf_nan=False) if small else read_json(payload, EVENT_LIMITS)
    except ValueError as refusal:
        too_costly = isinstance(refusal, JsonRefused) and refusal.code != "invalid_json"
        if too_costly or not _SURROGATE_ESCAPE.search(payload):
            raise ModelError(f"the model's stream is not JSON ({refusal}): {payload[:100]!r}", transient=True) from None
        event = _parse_with_lone_surrogates(payload)
    if not isinstance(event, dict):
        raise _not_a_chunk()
    return cast("dict[str, Any]", event)


async def read_large_event(payload: bytes) -> dict[str, Any] | None:
    """Do the same as `read_event`, in a thread if the payload is large. Raises ModelError."""
    return await run_by_size(len(payload), partial(read_event, payload))


@dataclass(slots=True)
class _Call:
    id: str
    name: str
    pieces: list[str] = field(default_factory=list[str])


@dataclass(slots=True)
class StreamParser:
    """Collects one completion while it is streamed."""

    sent: int
    """Bytes of the request, for providers that report no usage."""
    received: int = 0
    finish_reason: str | None = None
    done: bool = False
    model: str | None = None
    report: dict[str, Any] | None = None
    _calls: dict[int, _Call] = field(default_factory=dict[int, _Call])
    _ids: set[str] = field(default_factory=set[str])

    def feed_event(self, event: dict[str, Any] | None) -> Iterator[ModelEvent]:
        """Yield the model events in an event of the stream. Raises ModelError if it is not a completion chunk."""
        if event is None:
            self.done = True
            return
        if event.get("error"):
            raise errors.from_event(event["error"])
        try:
            yield from self._event(event)
        except (AttributeError, TypeError) as error:
            raise _not_a_chunk() from error

    def feed_response(self, reply: dict[str, Any] | None) -> Iterator[ModelEvent]:
        """Yield the events of a whole reply, from an endpoint that does not stream."""
        given: Any = reply.get("choices") if reply else None
        spoken = [{**choice, "delta": choice.get("message")} for choice in _objects(given)]
        if reply and spoken:
            reply = {**reply, "choices": spoken}
            self.done = True
        yield from self.feed_event(reply)

    def _event(self, event: dict[str, Any]) -> Iterator[ModelEvent]:
        if event.get("usage"):
            self.report = event["usage"]
        self.model = _text(event.get("model")) or self.model
        for choice in event.get("choices") or ():
            if reason := choice.get("finish_reason"):
                self.finish_reason = _text(reason)
            delta: dict[str, Any] = choice.get("delta") or {}
            if reasoning := delta.get("reasoning_content") or delta.get("reasoning"):
                yield ReasoningPiece(self._counted(reasoning))
            if text := delta.get("content"):
                yield TextPiece(self._counted(text))
            for call in delta.get("tool_calls") or ():
                yield from self._call(call)

    @property
    def complete(self) -> bool:
        """Whether the answer is complete; a usage report may still follow."""
        return self.finish_reason is not None or self.done

    def completion(self) -> Completion:
        """Return the completion. Raises ModelError if the stream ended too early."""
        if not self.complete:
            raise ModelError("the model's stream ended too early", transient=True)
        calls = tuple(ToolCall(call.id, call.name, "".join(call.pieces)) for call in self._calls.values())
        report = self.report if isinstance(self.report, dict) else None
        usage = Usage.estimated_from_bytes(self.sent, self.received) if report is None else usage_of(report)
        stop = _STOP.get(self.finish_reason or "stop", "other")
        end = "tool-calls" if calls and stop == "stop" else stop
        return Completion(end, calls, usage, self.model, usage_reported=report is not None)

    def _call(self, delta: dict[str, Any]) -> Iterator[ModelEvent]:
        function: dict[str, Any] = delta.get("function") or {}
        index: Any = delta.get("index")
        if index is None:  # some providers do not number their calls: a name begins the next one
            index = len(self._calls) if function.get("name") else len(self._calls) - 1
        if not isinstance(index, int):
            raise TypeError("the index of a call must be a number")
        call = self._calls.get(index)
        if call is None:
            if len(self._calls) == MAX_CALLS:
                raise ModelError(f"the model's answer has more than {MAX_CALLS} tool calls")
            name = self._counted(function.get("name") or "")
            call = self._calls[index] = _Call(self._call_id(_text(delta.get("id")), index), name)
            yield CallStarted(call.id, call.name)
        piece = function.get("arguments")
        if is_object(piece):  # some local servers send the arguments as an object
            piece = json.dumps(piece)
        if piece:
            call.pieces.append(self._counted(piece))
            yield CallPiece(call.id, piece)

    def _call_id(self, given: str | None, index: int) -> str:
        """Return the provider's id, made unique: some send none, others the same one for every call of an answer."""
        call_id = self._counted(given or f"call_{index}")
        while call_id in self._ids:
            call_id = f"{call_id}_{index}"
        self._ids.add(call_id)
        return call_id

    def _counted(self, piece: object) -> str:
        if not isinstance(piece, str):
            raise TypeError("a piece of an answer must be text")
        self.received += len(piece)
        return piece


def _text(value: object) -> str | None:
    """Return a text or None unchanged. Raises TypeError for any other value."""
    if value is None or isinstance(value, str):
        return value
    raise TypeError("must be text")


def _objects(value: Any) -> list[dict[str, Any]]:
    return [one for one in cast("list[Any]", value) if is_object(one)] if isinstance(value, list) else []


def _not_a_chunk() -> ModelError:
    return ModelError("the model's stream holds something that is not a completion chunk", transient=True)


def _parse_with_lone_surrogates(payload: bytes) -> Any:
    """Parse JSON with halves of surrogate pairs, which some providers send, and replace them: they cannot be stored."""
    try:
        text = json.dumps(json.loads(payload), ensure_ascii=False)  # noqa: TID251  its cost was checked
        return read_json(text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode(), EVENT_LIMITS)
    except (ValueError, RecursionError) as error:
        raise ModelError(f"the model's stream is not JSON: {payload[:100]!r}", transient=True) from error
