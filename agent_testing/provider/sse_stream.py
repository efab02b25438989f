"""Turn a step into a reply on the wire: bytes, pauses and an end. Pure functions, so that sending it is trivial.

Usage is counted by a simple rule: a piece of the answer is a token, and so are four bytes of the request's body.
"""

from __future__ import annotations

import itertools
import json
import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, cast

from .record import Recorded
from .steps import Call, Drop, Fail, Garbage, Hang, Raw, Say, Step

_PIECE = re.compile(r"\s*\S+\s*")
_ARGUMENT_PIECE = 24  # characters
_PHRASES = {int(status): status.phrase for status in HTTPStatus}
_HEARTBEAT_SECONDS = 120.0
_numbers = itertools.count(1)
_quote = json.encoder.encode_basestring_ascii


@dataclass(frozen=True, slots=True)
class Pause:
    seconds: float


@dataclass(frozen=True, slots=True)
class Hold:
    """Wait until released, and close the connection after `seconds`."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Close:
    """Close the connection once all written bytes are sent."""


WireReply = list[bytes | Pause | Hold | Close]


def wire_reply(step: Step, request: Recorded) -> WireReply:
    """Return the reply of a step to a chat completion request."""
    match step:
        case Fail():
            return [_failure(step)]
        case Garbage():
            return _garbage(step)
        case Raw():
            return raw_reply(step)
        case Drop():
            before = _cut(_answer(step.reply, request), step.after)
            return [*before, b"0\r\n\r\n" if step.clean else Close()]
        case Hang():
            whole = _answer(step.reply, request)
            before = _cut(whole, step.after)
            return [*before, Hold(step.seconds), *whole[len(before) :]]
        case Call():
            return _joined(_answer(Say(step.text, calls=(step,)), request))
        case Say():
            return _joined(_answer(step, request))


def json_reply(status: int, body: Any, *headers: str) -> bytes:
    """Return a complete HTTP response."""
    return _whole(status, json.dumps(body).encode(), "application/json", *headers)


def _whole(status: int, body: bytes, content_type: str, *headers: str) -> bytes:
    return _head(status, f"content-type: {content_type}", f"content-length: {len(body)}", *headers) + body


def _head(status: int, *headers: str) -> bytes:
    phrase = _PHRASES.get(status, "Unassigned")  # gateways send 520 to 529
    return "\r\n".join((f"HTTP/1.1 {status} {phrase}", *headers, "", "")).encode("latin-1")


def _failure(step: Fail) -> bytes:
    error = {"message": step.message, "type": "scripted_error", "param": None, "code": step.code}
    body = json.dumps({"error": error}) if step.body is None else step.body
    retry = () if step.retry_after is None else (f"retry-after: {step.retry_after}",)
    return _whole(step.status, body.encode(), "application/json", *retry)


def _garbage(step: Garbage) -> WireReply:
    body = step.body.encode()
    length = len(body) if step.length is None else step.length
    head = _head(200, f"content-type: {step.content_type}", f"content-length: {length}", "connection: close")
    return [head + body, Close()]


def raw_reply(step: Raw) -> WireReply:
    """Return the reply of a step to any request."""
    whole = "content-length" in step.headers
    given = [f"{name}: {value}" for name, value in step.headers.items()]
    head = _head(step.status, *given, *(() if whole else ("transfer-encoding: chunked",)))
    reply: WireReply = [Pause(step.wait), head] if step.wait else [head]
    frame: Callable[[bytes], bytes] = bytes if whole else _http_chunk
    for piece in filter(None, step.pieces):
        reply += [Pause(step.delay), frame(piece.encode(step.encoding))]
    if step.heartbeat is None:
        return reply if whole else [*reply, b"0\r\n\r\n"]
    beats = int(_HEARTBEAT_SECONDS / step.heartbeat_seconds) + 1
    beat: WireReply = [Pause(step.heartbeat_seconds), frame(step.heartbeat.encode(step.encoding))]
    return [*reply, *beat * beats, Close()]


def _http_chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


# ---------------------------------------------------------------- answers


def _answer(say: Say, request: Recorded) -> WireReply:
    """Return the head, pieces and end as separate items, with pauses between them."""
    body = request.fields
    if body.get("tool_choice") == "none" and say.calls:
        say = Say(say.text or "ok", reasoning=say.reasoning, usage=say.usage, wait=say.wait, delay=say.delay)
    before: WireReply = [Pause(say.wait)] if say.wait else []
    if body.get("stream"):
        return [*before, _stream_head, *_events(say, request, body)]
    return [*before, json_reply(200, _completion(say, request, body))]


_stream_head = _head(200, "content-type: text/event-stream; charset=utf-8", "transfer-encoding: chunked")


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
    yield b"0\r\n\r\n"


def _event(data: str) -> bytes:
    return f"{len(data) + 8:x}\r\ndata: {data}\n\n\r\n".encode("ascii")


def _deltas(say: Say) -> list[str]:
    """Return the delta of each piece as JSON."""
    deltas = [f'{{"reasoning_content": {_quote(piece)}}}' for piece in _PIECE.findall(say.reasoning)]
    deltas += [f'{{"content": {_quote(piece)}}}' for piece in _pieces(say)]
    for index, call in enumerate(say.calls):
        function = {"name": call.name, "arguments": ""}
        opening = {"index": index, "id": call.id or _new_id("call"), "type": "function", "function": function}
        deltas.append(json.dumps({"tool_calls": [opening]}))
        for piece in _argument_pieces(call):
            deltas.append(json.dumps({"tool_calls": [{"index": index, "function": {"arguments": piece}}]}))
    return deltas


def _completion(say: Say, request: Recorded, body: dict[str, Any]) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": "".join(_pieces(say)) or None}
    if say.reasoning:
        message["reasoning_content"] = say.reasoning
    if say.calls:
        message["tool_calls"] = [
            {
                "id": call.id or _new_id("call"),
                "type": "function",
                "function": {"name": call.name, "arguments": _arguments(call)},
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


def _pieces(say: Say) -> Sequence[str]:
    return _PIECE.findall(say.text) if say.pieces is None else say.pieces


def _arguments(call: Call) -> str:
    return call.arguments if isinstance(call.arguments, str) else json.dumps(call.arguments)


def _argument_pieces(call: Call) -> list[str]:
    text = _arguments(call)
    return [text[start : start + _ARGUMENT_PIECE] for start in range(0, len(text), _ARGUMENT_PIECE)]


def _finish_reason(say: Say) -> str:
    return say.finish_reason or ("tool_calls" if say.calls else "stop")


def _usage(say: Say, request: Recorded, pieces: int) -> dict[str, Any]:
    prompt = -(-len(request.body) // 4)
    counted = {"prompt_tokens": prompt, "completion_tokens": pieces, "total_tokens": prompt + pieces}
    thought = {"completion_tokens_details": {"reasoning_tokens": len(_PIECE.findall(say.reasoning))}}
    return {**counted, **(thought if say.reasoning else {}), **(say.usage or {})}


def _new_id(kind: str) -> str:
    return f"{kind}_{next(_numbers)}"


# ---------------------------------------------------------------- cutting and joining


def _cut(reply: WireReply, pieces: int) -> WireReply:
    """Return the first `pieces` pieces of a reply, with the head and the role event that precede them."""
    if pieces == 0:
        return []
    written = 0
    for position, item in enumerate(reply):
        written += isinstance(item, bytes)
        if written == pieces + 2:
            return reply[: position + 1]
    return reply[:-1]


def _joined(reply: WireReply) -> WireReply:
    """Join bytes that are due at once, so that the reply takes fewer writes."""
    joined: WireReply = []
    for are_bytes, run in itertools.groupby(reply, lambda item: isinstance(item, bytes)):
        items = list(run)
        joined += [b"".join(cast(list[bytes], items))] if are_bytes else items
    return joined
