"""Turn an answer or an error into the reply to a chat completion request.

Usage is counted by a simple rule: a piece of the answer is a token, and so are four bytes of the request's body.
"""

from __future__ import annotations

import itertools
import json
import re
import time
from collections.abc import Iterator, Sequence
from typing import Any

from .record import Recorded
from .steps import Call, Fail, Say
from .wire import LAST_CHUNK, Pause, WireReply, json_reply, stream_head, whole_reply

PIECE = re.compile(r"\s*\S+\s*")
_ARGUMENT_PIECE = 24  # characters
_numbers = itertools.count(1)
_quote = json.encoder.encode_basestring_ascii


def failure_reply(step: Fail) -> bytes:
    """Return an error in OpenAI's shape."""
    error = {"message": step.message, "type": "scripted_error", "param": None, "code": step.code}
    body = json.dumps({"error": error}) if step.body is None else step.body
    retry = () if step.retry_after is None else (f"retry-after: {step.retry_after}",)
    return whole_reply(step.status, body.encode(), "application/json", *retry)


def chat_answer(say: Say, request: Recorded) -> WireReply:
    """Return the head, pieces and end as separate items, with pauses between them."""
    body = request.fields
    if body.get("tool_choice") == "none" and say.calls:
        say = Say(say.text or "ok", reasoning=say.reasoning, usage=say.usage, wait=say.wait, delay=say.delay)
    before: WireReply = [Pause(say.wait)] if say.wait else []
    if body.get("stream"):
        return [*before, stream_head(), *_events(say, request, body)]
    return [*before, json_reply(200, _completion(say, request, body))]


def _events(say: Say, request: Recorded, body: dict[str, Any]) -> Iterator[bytes | Pause]:
    shell = {"id": _new_id("chatcmpl"), "object": "chat.completion.chunk", "created": int(time.time())}
    shell["model"] = body.get("model", "default")
    prefix = json.dumps(shell)[:-1] + ', "choices": [{"index": 0, "delta": '
    yield _event(prefix + '{"role": "assistant", "content": ""}, "finish_reason": null}]}')
    deltas = _deltas(say)
    for number, delta in enumerate(deltas):
        if number and say.delay:
            yield Pause(say.delay)
        yield _event(f'{prefix}{delta}, "finish_reason": null}}]}}')
    yield _event(f'{prefix}{{}}, "finish_reason": {_quote(_finish_reason(say))}}}]}}')
    options: dict[str, Any] = body.get("stream_options") or {}
    if options.get("include_usage"):
        usage = _usage(say, request, len(deltas))
        yield _event(json.dumps({**shell, "choices": [], "usage": usage}))
    yield _event("[DONE]")
    yield LAST_CHUNK


def _event(data: str) -> bytes:
    return f"{len(data) + 8:x}\r\ndata: {data}\n\n\r\n".encode("ascii")


def _deltas(say: Say) -> list[str]:
    """Return the delta of each piece as JSON."""
    deltas = [f'{{"reasoning_content": {_quote(piece)}}}' for piece in PIECE.findall(say.reasoning)]
    deltas += [f'{{"content": {_quote(piece)}}}' for piece in text_pieces(say)]
    for index, call in enumerate(say.calls):
        function = {"name": call.name, "arguments": ""}
        opening = {"index": index, "id": call.id or _new_id("call"), "type": "function", "function": function}
        deltas.append(json.dumps({"tool_calls": [opening]}))
        for piece in argument_pieces(call):
            deltas.append(json.dumps({"tool_calls": [{"index": index, "function": {"arguments": piece}}]}))
    return deltas


def _completion(say: Say, request: Recorded, body: dict[str, Any]) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": "".join(text_pieces(say)) or None}
    if say.reasoning:
        message["reasoning_content"] = say.reasoning
    if say.calls:
        message["tool_calls"] = [
            {
                "id": call.id or _new_id("call"),
                "type": "function",
                "function": {"name": call.name, "arguments": arguments_text(call)},
            }
            for call in say.calls
        ]
    return {
        "id": _new_id("chatcmpl"),
        "object": "chat.completion",
        "created": int(time.time()),
        "model": body.get("model", "default"),
        "choices": [{"index": 0, "message": message, "finish_reason": _finish_reason(say)}],
        "usage": _usage(say, request, len(_deltas(say))),
    }


def text_pieces(say: Say) -> Sequence[str]:
    return PIECE.findall(say.text) if say.pieces is None else say.pieces


def arguments_text(call: Call) -> str:
    return call.arguments if isinstance(call.arguments, str) else json.dumps(call.arguments)


def argument_pieces(call: Call) -> list[str]:
    text = arguments_text(call)
    return [text[start : start + _ARGUMENT_PIECE] for start in range(0, len(text), _ARGUMENT_PIECE)]


def _finish_reason(say: Say) -> str:
    return say.finish_reason or ("tool_calls" if say.calls else "stop")


def _usage(say: Say, request: Recorded, pieces: int) -> dict[str, Any]:
    thought = {"completion_tokens_details": {"reasoning_tokens": len(PIECE.findall(say.reasoning))}}
    counted = {"prompt_tokens": -(-len(request.body) // 4), "completion_tokens": pieces}
    reported: dict[str, Any] = {**counted, **(thought if say.reasoning else {}), **(say.usage or {})}
    return {"total_tokens": sum(reported[name] for name in counted if type(reported[name]) is int), **reported}


def _new_id(kind: str) -> str:
    return f"{kind}_{next(_numbers)}"
