"""Turn a step into a reply on the wire, in any provider's dialect."""

from __future__ import annotations

from collections.abc import Callable

from .steps import Call, Drop, Fail, Garbage, Hang, Say, Step
from .wire import LAST_CHUNK, Close, Hold, WireReply, cut, joined, reply_head

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
