"""How a turn ended, and why an agent cannot be followed, in words for a chat."""

from __future__ import annotations

import math
from dataclasses import dataclass
from http import HTTPStatus

from agent_client import (
    ApiError,
    ClientError,
    NotRunning,
    Quarantined,
    Reply,
    TooManyRequests,
    Unauthorized,
    UnexpectedReply,
)

from ..words import plain

_BY_CODE = {
    "interrupted": "The agent was restarted in the middle of this. Write again to go on.",
    "model_unavailable": "The model's provider is down or cannot be reached.",
    "model_rate_limited": "The model's provider has too many calls at once.",
    "model_quota": "The quota at the model's provider is used up.",
    "model_auth": "The model's provider refuses the key.",
    "model_config": "The model's provider refuses the request.",
    "unknown_model": "The provider does not know this model. Choose another one with /model.",
    "context_overflow": "The conversation does not fit into the model's window any more. /new begins another one.",
    "content_refused": "The model's provider does not answer to this content.",
    "budget_exhausted": "The budget is used up.",
    "store_unavailable": "The agent's disk is full or broken.",
}
_BY_REASON = {
    "length": "The answer was cut off at the model's limit.",
    "content-filter": "The provider's filter has cut the answer off.",
}

_PASSING = (HTTPStatus.BAD_GATEWAY, HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.GATEWAY_TIMEOUT)


def ending(reply: Reply) -> str:
    """Return what is to be known about the end of a turn; nothing if it simply ended."""
    if reply.finish_reason == "abort":
        return "⏹ Stopped." if reply.error_code in (None, "cancelled") else f"⏹ {_failure(reply)}"
    if reply.finish_reason == "error" or reply.error_code:
        return f"⚠️ {_failure(reply)}"
    if reply.limit:
        return f"⚠️ The turn has ended at its limit: {plain(reply.limit, 60)}."
    return f"⚠️ {words}" if (words := _BY_REASON.get(reply.finish_reason)) else ""


def _failure(reply: Reply) -> str:
    words = _BY_CODE.get(reply.error_code or "") or f"The turn has failed: {plain(reply.error or 'no reason given')}"
    if reply.retry_after is not None:
        words += f" Try again in {math.ceil(reply.retry_after)} s."
    return words


@dataclass(frozen=True, slots=True)
class Trouble:
    """Why a call to an agent failed."""

    words: str
    passing: bool
    """Whether it may work later, by itself or because the operator mends it."""


def trouble_of(error: ClientError) -> Trouble:
    """Return in words why a call failed, and whether it is worth another attempt."""
    match error:
        case NotRunning():
            return Trouble("The agent does not run right now.", passing=True)
        case Quarantined():
            return Trouble("The agent is in quarantine: its operator has cut it off.", passing=True)
        case Unauthorized():
            return Trouble("The bot may not speak with agents any more. Its operator must mend that.", passing=True)
        case TooManyRequests():
            return Trouble("The agent has too much to do right now.", passing=True)
        case ApiError() if error.status in _PASSING:
            return Trouble("The agent does not answer right now.", passing=True)
        case ApiError():
            return Trouble(f"The agent refuses this: {plain(error.problem.detail)}", passing=False)
        case UnexpectedReply():
            return Trouble("The agent answers in a way that the bot does not understand.", passing=False)
        case _:
            return Trouble("The agent cannot be reached right now.", passing=True)
