"""Reads an answer as the runtime does, without a connection."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from agent_common.completions import (
    CallPiece,
    CallStarted,
    CompletionReader,
    EventSplitter,
    ReasoningPiece,
    TextPiece,
    TextWasReasoning,
    read_event,
)

ERRORS = [
    '{"error": {"message": "it broke", "code": 400}}',
    '{"error": "it broke"}',
    '{"object": "error", "message": "it broke", "code": 400}',
    '{"code": "InvalidParameter", "message": "it broke"}',
    '{"detail": "it broke"}',
    '{"errors": [{"message": "it broke"}]}',
    '[{"error": {"code": 400, "message": "it broke", "status": "INVALID_ARGUMENT"}}]',
    '{"choices": [], "error": {"code": 400, "message": "it broke"}}',
    '{"choices": [{"delta": {}, "error": {"code": 400, "message": "it broke"}, "finish_reason": "error"}]}',
    '{"choices": null, "base_resp": {"status_code": 1008, "status_msg": "it broke"}}',
]
"""Events that say an error with these words, each in another place."""


@dataclass
class Answer:
    """What an answer came to."""

    reader: CompletionReader
    text: str = ""
    reasoning: str = ""
    started: tuple[tuple[str, str], ...] = ()
    shown: str = ""
    """The pieces of arguments that were shown while they came."""

    @property
    def calls(self) -> list[tuple[str, str]]:
        return [(call.name, call.arguments) for call in self.reader.calls]


def read(body: bytes, size: int = 0, **options: Any) -> Answer:
    """Read a body in pieces of `size` bytes; 0: all at once."""
    reader, splitter = CompletionReader(100, **options), EventSplitter()
    answer = Answer(reader)
    pieces = [body[at : at + size] for at in range(0, len(body), size)] if size else [body]
    for piece in pieces:
        for text in splitter.feed(piece):
            _take(answer, reader.feed(read_event(text), splitter.name))
    for text in splitter.finish():
        _take(answer, reader.feed(read_event(text), splitter.name))
    _take(answer, reader.finish())
    return answer


def _take(answer: Answer, pieces: Iterable[Any]) -> None:
    for piece in pieces:
        match piece:
            case TextPiece(text):
                answer.text += text
            case ReasoningPiece(text):
                answer.reasoning += text
            case TextWasReasoning():
                answer.text, answer.reasoning = "", answer.text
            case CallStarted(call_id, name):
                answer.started += ((call_id, name),)
            case CallPiece(_, text):
                answer.shown += text
            case _:
                raise AssertionError(f"not a piece of an answer: {piece}")


def stream(*deltas: dict[str, Any], finish: str | None = "stop") -> bytes:
    """A stream of these deltas."""
    ended = [*((delta, None) for delta in deltas), (dict[str, Any](), finish)]
    events = [{"choices": [{"index": 0, "delta": delta, "finish_reason": reason}]} for delta, reason in ended]
    return b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in events) + b"data: [DONE]\n\n"


def call(**members: Any) -> dict[str, Any]:
    """A delta with one piece of a call: `name` and `arguments` are those of its function."""
    function = {name: members.pop(name) for name in ("name", "arguments") if name in members}
    return {"tool_calls": [{**members, "function": function}]}
