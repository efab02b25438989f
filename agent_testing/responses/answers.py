"""Answers: the items of a step, as the events of a stream or as one response."""

from __future__ import annotations

import itertools
import json
import time
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
from .encryption import encrypt
from .errors import reply_headers
from .models import ModelRules
from .rules import ENCRYPTED
from .schema import ResponsesRequest
from .steps import Items

_numbers = itertools.count(1)
_PREFIXES = {"reasoning": "rs", "message": "msg", "function_call": "fc"}
_INCOMPLETE = {"length": "max_output_tokens", "content_filter": "content_filter"}


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer before it is sent."""

    response: dict[str, Any]
    """The response as it is at its end."""
    pieces: Sequence[Sequence[str]]
    """Of each item, the pieces in which its text is streamed."""

    @property
    def items(self) -> Sequence[dict[str, Any]]:
        return self.response["output"]


def make_answer(say: Say, request: ResponsesRequest, model: ModelRules, tokens: tuple[int, int]) -> Answer:
    """Make the answer of a step. `tokens`: of the prompt, and how many of them were cached.

    A model that does not reason leaves its reasoning out, one that may not call its calls.
    """
    calls = bool(request.tools) and request.tool_choice != "none"
    items: list[dict[str, Any]] = []
    pieces: list[Sequence[str]] = []
    for item, words in _items(say):
        kind = item["type"]
        if (kind == "reasoning" and not model.reasons) or (kind == "function_call" and not calls):
            continue
        items.append(_finished(item, request))
        pieces.append(words)
    if not items:
        items = [_finished(_message("ok"), request)]
        pieces = [["ok"]]
    if model.has_phases:
        _add_phases(items)
    prompt, cached = tokens
    thought = sum(len(words) for item, words in zip(items, pieces, strict=True) if item["type"] == "reasoning")
    output = sum(map(len, pieces))
    usage: dict[str, Any] = {
        "input_tokens": prompt,
        "input_tokens_details": {"cached_tokens": cached, "cache_write_tokens": 0},
        "output_tokens": output,
        "output_tokens_details": {"reasoning_tokens": thought},
        "total_tokens": prompt + output,
        **(say.usage or {}),
    }
    why = _INCOMPLETE.get(say.finish_reason or "")
    response: dict[str, Any] = {
        "id": f"resp_{next(_numbers):048x}",
        "object": "response",
        "created_at": int(time.time()),
        "status": "incomplete" if why else "completed",
        "error": None,
        "incomplete_details": {"reason": why} if why else None,
        "instructions": request.instructions,
        "model": request.model,
        "output": items,
        "parallel_tool_calls": request.parallel_tool_calls is not False,
        "store": request.store,
        "tool_choice": "auto",
        "tools": [],
        "usage": usage,
    }
    return Answer(response, pieces)


def answer_reply(answer: Answer, say: Say, *, streamed: bool) -> WireReply:
    """Return the head, the pieces and the end of an answer, with pauses between them."""
    before: WireReply = [Pause(say.wait)] if say.wait else []
    if streamed:
        return [*before, stream_head(*reply_headers()), *_events(answer, say.delay)]
    return [*before, json_reply(200, answer.response, *reply_headers())]


# ---------------------------------------------------------------- items


def _items(say: Say) -> Iterator[tuple[dict[str, Any], Sequence[str]]]:
    """Yield the items of a step, and the pieces of each."""
    if isinstance(say, Items):
        yield from ((item, _words(item)) for item in say.output)
        return
    if say.reasoning:
        summary = [{"type": "summary_text", "text": say.reasoning}]
        yield {"type": "reasoning", "summary": summary}, PIECE.findall(say.reasoning)
    if text := "".join(text_pieces(say)):
        yield _message(text), text_pieces(say)
    for call in say.calls:
        named = {"call_id": call.id} if call.id else {}
        item = {"type": "function_call", "name": call.name, "arguments": arguments_text(call), **named}
        yield item, argument_pieces(call)


def _message(text: str) -> dict[str, Any]:
    part: dict[str, Any] = {"type": "output_text", "annotations": [], "logprobs": [], "text": text}
    return {"type": "message", "role": "assistant", "content": [part]}


def _finished(item: dict[str, Any], request: ResponsesRequest) -> dict[str, Any]:
    """Return an item with its ids, its status, and its encrypted content if the request asks for that."""
    kind = item["type"]
    number = next(_numbers)
    whole: dict[str, Any] = {"id": f"{_PREFIXES[kind]}_{number:048x}", **item}
    match kind:
        case "reasoning":
            whole = {"summary": [], **whole}
            if ENCRYPTED in (request.include or ()):
                size = sum(len(one["text"]) for one in whole["summary"])
                whole = {"encrypted_content": encrypt(whole["id"], size), **whole}
            return whole
        case "function_call":
            return {"call_id": f"call_{number:024d}", "status": "completed", **whole}
        case _:
            return {"status": "completed", "role": "assistant", **whole}


def _add_phases(items: list[dict[str, Any]]) -> None:
    called = False
    for item in reversed(items):
        called = called or item["type"] == "function_call"
        if item["type"] == "message":
            item.setdefault("phase", "commentary" if called else "final_answer")


def _words(item: dict[str, Any]) -> Sequence[str]:
    match item["type"]:
        case "reasoning":
            return [word for part in item.get("summary") or () for word in PIECE.findall(part["text"])]
        case "function_call":
            return [item["arguments"]]
        case _:
            return [word for part in item["content"] for word in PIECE.findall(part.get("text", part.get("refusal")))]


# ---------------------------------------------------------------- the stream


def _events(answer: Answer, delay: float) -> Iterator[bytes | Pause]:
    numbers = itertools.count()

    def event(kind: str, **fields: Any) -> bytes:
        data = {"type": kind, **fields, "sequence_number": next(numbers)}
        return http_chunk(f"event: {kind}\ndata: {json.dumps(data)}\n\n".encode())

    begun: dict[str, Any] = {
        **answer.response,
        "status": "in_progress",
        "incomplete_details": None,
        "output": [],
        "usage": None,
    }
    yield event("response.created", response=begun) + event("response.in_progress", response=begun)
    first = True
    for index, (item, words) in enumerate(zip(answer.items, answer.pieces, strict=True)):
        yield event("response.output_item.added", output_index=index, item=_opened(item))
        for kind, fields in _deltas(item, words):
            if delay and not first and kind.endswith(".delta"):
                yield Pause(delay)
            first = False
            yield event(kind, item_id=item["id"], output_index=index, **fields)
        yield event("response.output_item.done", output_index=index, item=item)
    yield event(f"response.{answer.response['status']}", response=answer.response)
    yield LAST_CHUNK


def _opened(item: dict[str, Any]) -> dict[str, Any]:
    """Return an item as it begins: its text comes in deltas."""
    match item["type"]:
        case "reasoning":
            return {**item, "summary": [], **({"encrypted_content": ""} if "encrypted_content" in item else {})}
        case "function_call":
            return {**item, "arguments": "", "status": "in_progress"}
        case _:
            return {**item, "content": [], "status": "in_progress"}


def _deltas(item: dict[str, Any], words: Sequence[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    match item["type"]:
        case "reasoning":
            for number, part in enumerate(item["summary"]):
                at = {"summary_index": number}
                yield "response.reasoning_summary_part.added", {**at, "part": {**part, "text": ""}}
                for word in PIECE.findall(part["text"]):
                    yield "response.reasoning_summary_text.delta", {**at, "delta": word}
                yield "response.reasoning_summary_text.done", {**at, "text": part["text"]}
                yield "response.reasoning_summary_part.done", {**at, "part": part}
        case "function_call":
            for word in words:
                yield "response.function_call_arguments.delta", {"delta": word}
            yield "response.function_call_arguments.done", {"arguments": item["arguments"], "name": item["name"]}
        case _:
            whole = len(item["content"]) == 1
            for number, part in enumerate(item["content"]):
                at = {"content_index": number}
                kind = "refusal" if part["type"] == "refusal" else "output_text"
                member = "refusal" if kind == "refusal" else "text"
                yield "response.content_part.added", {**at, "part": {**part, member: ""}}
                for word in words if whole else PIECE.findall(part[member]):
                    yield f"response.{kind}.delta", {**at, "delta": word}
                yield f"response.{kind}.done", {**at, member: part[member]}
                yield "response.content_part.done", {**at, "part": part}
