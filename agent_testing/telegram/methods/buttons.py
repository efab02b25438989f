"""Acknowledgements of presses."""

from __future__ import annotations

from typing import Any

from ..api_error import bad_request
from ..parameters import Parameters
from ..world import CallbackAnswer, World

_MOST_TEXT = 200


def answer_callback_query(world: World, parameters: Parameters) -> Any:
    press = world.presses.get(parameters.text("callback_query_id"))
    too_old = press is None or world.clock() - press.at > world.limiter.limits.callback_seconds
    if press is None or too_old or press.answer is not None:
        raise bad_request("query is too old and response timeout expired or query ID is invalid")
    if len(parameters.text("text")) > _MOST_TEXT:
        raise bad_request("MESSAGE_TOO_LONG")
    press.answer = CallbackAnswer(
        parameters.text("text"), parameters.flag("show_alert"), parameters.text("url") or None
    )
    return True
