"""Answers with what the provider wants to see again: as the message that it is, and as the deltas of a stream."""

from __future__ import annotations

import base64
import hashlib
import itertools
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ..provider import (
    LAST_CHUNK,
    PIECE,
    Pause,
    Say,
    WireReply,
    argument_pieces,
    arguments_text,
    http_chunk,
    json_reply,
    stream_head,
    text_pieces,
)
from .dialects import Dialect

_numbers = itertools.count(1)
_FORMAT = "anthropic-claude-v1"


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer before it is sent."""

    message: dict[str, Any]
    deltas: list[dict[str, Any]]
    finish_reason: str


def make_answer(dialect: Dialect, say: Say, *, calls_before: int) -> Answer:
    """Make the answer of a step. `calls_before`: calls in the conversation so far."""
    reasoning = say.reasoning
    text = "".join(text_pieces(say))
    message: dict[str, Any] = {"role": "assistant", "content": text or None}
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    if reasoning:
        message |= _reasoning_members(dialect, reasoning, text)
        deltas += _reasoning_deltas(dialect, reasoning, message)
    deltas += [{"content": piece} for piece in text_pieces(say)]
    calls = [_call(dialect, call.name, arguments_text(call), calls_before + at) for at, call in enumerate(say.calls)]
    if calls:
        message["tool_calls"] = calls
    for at, (call, asked) in enumerate(zip(calls, say.calls, strict=True)):
        opening = {**call, "index": at, "function": {**call["function"], "arguments": ""}}
        deltas.append({"tool_calls": [opening]})
        deltas += [
            {"tool_calls": [{"index": at, "function": {"arguments": piece}}]} for piece in argument_pieces(asked)
        ]
    if dialect.signed_calls and not calls:
        deltas.append({"extra_content": _signature()})
        message |= {"extra_content": deltas[-1]["extra_content"]}
    return Answer(message, deltas, say.finish_reason or ("tool_calls" if calls else "stop"))


def answer_reply(answer: Answer, say: Say, model: str, prompt_tokens: int, *, streamed: bool, usage: bool) -> WireReply:
    """Return the head, the pieces and the end of an answer, with pauses between them."""
    output = len(answer.deltas)
    counts = {"prompt_tokens": prompt_tokens, "completion_tokens": output, "total_tokens": prompt_tokens + output}
    counts |= say.usage or {}
    before: WireReply = [Pause(say.wait)] if say.wait else []
    shell = {"id": f"chatcmpl-{next(_numbers)}", "created": int(time.time()), "model": model}
    if not streamed:
        choice = {"index": 0, "message": answer.message, "finish_reason": answer.finish_reason}
        return [*before, json_reply(200, {**shell, "object": "chat.completion", "choices": [choice], "usage": counts})]
    shell["object"] = "chat.completion.chunk"
    return [*before, stream_head(), *_events(answer, say, shell, counts if usage else None)]


def _events(answer: Answer, say: Say, shell: dict[str, Any], counts: dict[str, Any] | None) -> Iterator[bytes | Pause]:
    for number, delta in enumerate(answer.deltas):
        if number and say.delay:
            yield Pause(say.delay)
        yield _event({**shell, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]})
    yield _event({**shell, "choices": [{"index": 0, "delta": {}, "finish_reason": answer.finish_reason}]})
    if counts is not None:
        yield _event({**shell, "choices": [], "usage": counts})
    yield http_chunk(b"data: [DONE]\n\n") + LAST_CHUNK


def _event(data: dict[str, Any]) -> bytes:
    return http_chunk(f"data: {json.dumps(data)}\n\n".encode())


# ---------------------------------------------------------------- what is to come back


def _reasoning_members(dialect: Dialect, reasoning: str, text: str) -> dict[str, Any]:
    match dialect.reasoning:
        case "reasoning_content":
            return {"reasoning_content": reasoning}
        case "content":
            thought = {"type": "thinking", "thinking": [{"type": "text", "text": reasoning}]}
            return {"content": [thought, *([{"type": "text", "text": text}] if text else [])]}
        case "details":
            head = {"type": "reasoning.text", "format": _FORMAT, "index": 0}
            spoken = {**head, "text": reasoning, "signature": _random()}  # in the order in which a stream has them
            sealed = {"type": "reasoning.encrypted", "data": _random(), "format": _FORMAT, "index": 1}
            return {"reasoning": reasoning, "reasoning_details": [spoken, sealed]}
        case _:
            return {}


def _reasoning_deltas(dialect: Dialect, reasoning: str, message: dict[str, Any]) -> Iterator[dict[str, Any]]:
    pieces = PIECE.findall(reasoning)
    match dialect.reasoning:
        case "reasoning_content":
            yield from ({"reasoning_content": piece} for piece in pieces)
        case "content":
            for piece in pieces:
                yield {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": piece}]}]}
        case "details":
            spoken, sealed = message["reasoning_details"]
            head = {"type": spoken["type"], "format": _FORMAT, "index": 0}
            for piece in pieces:
                yield {"reasoning": piece, "reasoning_details": [{**head, "text": piece}]}
            yield {"reasoning_details": [{**head, "signature": spoken["signature"]}]}
            yield {"reasoning_details": [sealed]}
        case _:
            return


def _call(dialect: Dialect, name: str, arguments: str, number: int) -> dict[str, Any]:
    match dialect.id_style:
        case "nine":
            call_id = hashlib.sha256(str(next(_numbers)).encode()).hexdigest()[:9]
        case "numbered":
            call_id = f"functions.{name}:{number}"
        case "plain":
            call_id = f"call_{next(_numbers):024d}"
    call: dict[str, Any] = {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}
    return call | ({"extra_content": _signature()} if dialect.signed_calls else {})


def _signature() -> dict[str, Any]:
    return {"google": {"thought_signature": _random()}}


def _random() -> str:
    return base64.b64encode(hashlib.sha512(str(next(_numbers)).encode()).digest()).decode()
