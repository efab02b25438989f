"""Turn a step into a reply on the wire, in any provider's dialect."""

from __future__ import annotations

from collections.abc import Callable

from .steps import Call, Drop, Fail, Garbage, Hang, Raw, Say, Step
from .wire import LAST_CHUNK, Close, Hold, Pause, WireReply, cut, http_chunk, joined, reply_head

_HEARTBEAT_SECONDS = 120.0

Answer = Callable[[Say], WireReply]
"""Return the head, the pieces and the end of an answer as separate items, with pauses between them."""
Failure = Callable[[Fail], bytes]


def wire_reply(step: Step, answer: Answer, failure: Failure) -> WireReply:
    """Return the reply of a step."""
    match step:
        case Fail():
            return [failure(step)]
        case Garbage():
            return _garbage(step)
        case Raw():
            return raw_reply(step)
        case Drop():
            before = cut(answer(step.reply), step.after)
            return [*before, LAST_CHUNK if step.clean else Close()]
        case Hang():
            whole = answer(step.reply)
            before = cut(whole, step.after)
            return [*before, Hold(step.seconds), *whole[len(before) :]]
        case Call():
            return joined(answer(Say(step.text, calls=(step,))))
        case Say():
            return joined(answer(step))


def _garbage(step: Garbage) -> WireReply:
    body = step.body.encode()
    length = len(body) if step.length is None else step.length
    head = reply_head(200, f"content-type: {step.content_type}", f"content-length: {length}", "connection: close")
    return [head + body, Close()]


def raw_reply(step: Raw) -> WireReply:
    """Return the reply of a step to any request."""
    whole = "content-length" in step.headers
    given = [f"{name}: {value}" for name, value in step.headers.items()]
    head = reply_head(step.status, *given, *(() if whole else ("transfer-encoding: chunked",)))
    reply: WireReply = [Pause(step.wait), head] if step.wait else [head]
    frame: Callable[[bytes], bytes] = bytes if whole else http_chunk
    for piece in filter(None, step.pieces):
        reply += [Pause(step.delay), frame(piece.encode(step.encoding))]
    if step.heartbeat is None:
        return reply if whole else [*reply, LAST_CHUNK]
    beats = int(_HEARTBEAT_SECONDS / step.heartbeat_seconds) + 1
    beat: WireReply = [Pause(step.heartbeat_seconds), frame(step.heartbeat.encode(step.encoding))]
    return [*reply, *beat * beats, Close()]
