"""Answers: the blocks of a step, as the events of a stream or as one message."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Sequence
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
from .errors import new_request_id, reply_headers
from .prompt_cache import PromptTokens
from .signatures import seal, sign
from .steps import Blocks

_numbers = itertools.count(1)
_STOPS = {"stop": "end_turn", "length": "max_tokens", "tool_calls": "tool_use", "content_filter": "refusal"}


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer before it is sent."""

    model: str
    content: Sequence[dict[str, Any]]
    pieces: Sequence[Sequence[str]]
    """Of each block, the pieces in which its text is streamed."""
    stop_reason: str
    usage: dict[str, Any]
    id: str


def make_answer(say: Say, model: str, prompt: PromptTokens, *, thinks: bool, shown: bool, calls: bool) -> Answer:
    """Make the answer of a step. A model that does not think leaves its reasoning out, one that may not call its calls.

    Thinking that is not `shown` has no text, only a signature.
    """
    content, pieces = _content(say, thinks=thinks, shown=shown, calls=calls)
    called = any(block["type"] == "tool_use" for block in content)
    stop = say.finish_reason or ("tool_calls" if called else "stop")
    thought = sum(len(words) for block, words in zip(content, pieces, strict=True) if "thinking" in block["type"])
    usage = {
        "input_tokens": prompt.input,
        "cache_creation_input_tokens": prompt.cache_write,
        "cache_read_input_tokens": prompt.cache_read,
        "output_tokens": sum(map(len, pieces)),
        **({"output_tokens_details": {"thinking_tokens": thought}} if thought else {}),
        **(say.usage or {}),
    }
    return Answer(model, content, pieces, _STOPS.get(stop, stop), usage, f"msg_{next(_numbers):024d}")


def answer_reply(answer: Answer, say: Say, *, streamed: bool) -> WireReply:
    """Return the head, the pieces and the end of an answer, with pauses between them."""
    before: WireReply = [Pause(say.wait)] if say.wait else []
    headers = reply_headers(new_request_id())
    if streamed:
        return [*before, stream_head(*headers), *_events(answer, say.delay)]
    return [*before, json_reply(200, {**_message(answer), "content": list(answer.content)}, *headers)]


# ---------------------------------------------------------------- content


def _content(say: Say, *, thinks: bool, shown: bool, calls: bool) -> tuple[list[dict[str, Any]], list[Sequence[str]]]:
    content: list[dict[str, Any]] = []
    pieces: list[Sequence[str]] = []
    for block, words in _blocks(say):
        if ("thinking" in block["type"] and not thinks) or (block["type"] == "tool_use" and not calls):
            continue
        if block["type"] == "thinking":
            content.append(_signed(block, block["thinking"] if shown else ""))
            pieces.append(words if shown else [""] * len(words))
        else:
            content.append(block)
            pieces.append(words)
    if not content:
        content = [{"type": "text", "text": "ok"}]
        pieces = [["ok"]]
    return content, pieces


def _blocks(say: Say) -> Iterator[tuple[dict[str, Any], Sequence[str]]]:
    """Yield the blocks of a step, and the pieces of each."""
    if isinstance(say, Blocks):
        for block in say.content:
            yield _whole(block), _words(block)
        return
    if say.reasoning:
        yield {"type": "thinking", "thinking": say.reasoning}, PIECE.findall(say.reasoning)
    if text := "".join(text_pieces(say)):
        yield {"type": "text", "text": text}, text_pieces(say)
    for call in say.calls:
        block = {"type": "tool_use", "id": call.id or _call_id(), "name": call.name}
        yield {**block, "input": json.loads(arguments_text(call))}, argument_pieces(call)


def _signed(block: dict[str, Any], text: str) -> dict[str, Any]:
    return {**block, "thinking": text, "signature": block.get("signature") or sign(text)}


def _whole(block: dict[str, Any]) -> dict[str, Any]:
    match block["type"]:
        case "redacted_thinking":
            return {"data": seal(), **block}
        case "tool_use":
            return {"id": _call_id(), **block}
        case _:
            return block


def _words(block: dict[str, Any]) -> Sequence[str]:
    match block["type"]:
        case "tool_use":
            return [json.dumps(block["input"])]
        case "redacted_thinking":
            return [""]
        case kind:
            return PIECE.findall(block[kind])


def _call_id() -> str:
    return f"toolu_{next(_numbers):024d}"


# ---------------------------------------------------------------- the stream


def _message(answer: Answer) -> dict[str, Any]:
    shell = {"id": answer.id, "type": "message", "role": "assistant", "model": answer.model}
    return {**shell, "stop_reason": answer.stop_reason, "stop_sequence": None, "usage": answer.usage}


def _events(answer: Answer, delay: float) -> Iterator[bytes | Pause]:
    used = {name: count for name, count in answer.usage.items() if name != "output_tokens_details"}
    opened: dict[str, Any] = {"content": [], "stop_reason": None, "usage": {**used, "output_tokens": 1}}
    yield event("message_start", message={**_message(answer), **opened})
    first = True
    for index, (block, words) in enumerate(zip(answer.content, answer.pieces, strict=True)):
        yield event("content_block_start", index=index, content_block=_opened(block)) + (
            event("ping") if first else b""
        )
        for delta in _deltas(block, words):
            if delay and not first:
                yield Pause(delay)
            first = False
            yield event("content_block_delta", index=index, delta=delta)
        yield event("content_block_stop", index=index)
    yield event("message_delta", delta={"stop_reason": answer.stop_reason, "stop_sequence": None}, usage=answer.usage)
    yield event("message_stop")
    yield LAST_CHUNK


def event(kind: str, **fields: Any) -> bytes:
    """Return an event of the stream as a chunk of the body."""
    data = f"event: {kind}\ndata: {json.dumps({'type': kind, **fields})}\n\n".encode()
    return http_chunk(data)


def _opened(block: dict[str, Any]) -> dict[str, Any]:
    """Return a block as it begins: its text comes in deltas, redacted thinking whole."""
    match block["type"]:
        case "thinking":
            return {**block, "thinking": "", "signature": ""}
        case "tool_use":
            return {**block, "input": {}}
        case "text":
            return {**block, "text": ""}
        case _:
            return block


def _deltas(block: dict[str, Any], words: Sequence[str]) -> Iterator[dict[str, Any]]:
    match block["type"]:
        case "thinking":
            yield from ({"type": "thinking_delta", "thinking": word} for word in words if word)
            yield {"type": "signature_delta", "signature": block["signature"]}
        case "tool_use":
            yield {"type": "input_json_delta", "partial_json": ""}
            yield from ({"type": "input_json_delta", "partial_json": word} for word in words)
        case "text":
            yield from ({"type": "text_delta", "text": word} for word in words)
        case _:
            return
