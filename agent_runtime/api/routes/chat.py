"""`/chat`: takes a person's message; returns the reply as one JSON object or as the AI SDK's stream."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response

from agent_common.api import problem_response
from agent_common.protocol import (
    DEFAULT_WAIT_SECONDS,
    ChatPending,
    ChatReply,
    ChatRequest,
    ResetReply,
    ResetRequest,
    Usage,
    UseChatRequest,
)

from ...errors import Conflict, InvalidRequest
from ...loop import ERROR_STATUSES, CompletedTurn, IncomingMessage, Turn, reply_of
from ...sessions import is_session_id
from ..dependencies import Services, principal, read_body, read_chat_body, require_accepting
from ..responses import continued_stream, live_stream, model_response, recorded_stream
from . import use_chat

router = APIRouter(tags=["chat"])
_STATUSES = {"unknown_model": 422, "deadline_exceeded": 504}
"""HTTP status of failed turns by error code; others are 500, or 502 for failures of the model."""


@dataclass(frozen=True, slots=True)
class _ReplyOptions:
    """The form of the reply that the caller wants."""

    wait_seconds: float
    stream: bool
    through_waits: bool = True
    """Whether a stream stays open while the turn waits for a person."""


@router.post("/chat")
async def chat(request: Request) -> Response:
    """Send a message. The reply is a stream if the caller accepts one, else JSON."""
    return await _chat(request, stream="text/event-stream" in request.headers.get("accept", ""))


@router.post("/chat/stream")
async def chat_stream(request: Request) -> Response:
    """Send a message; the reply is always a stream."""
    return await _chat(request, stream=True)


@router.post("/chat/steer")
async def steer(request: Request) -> Response:
    """Send a message that joins the running turn at its next step. If none is running, it is an ordinary message."""
    at = require_accepting(request)
    asked = await read_body(request, ChatRequest)
    if "on_busy" in asked.model_fields_set and asked.on_busy != "steer":
        raise InvalidRequest("this route always steers", faults=[("on_busy", "remove it, or post to /chat")])
    await _check_model(at, asked)
    sent = await at.chats.send(_incoming(request, asked.model_copy(update={"on_busy": "steer"})))
    stream = "text/event-stream" in request.headers.get("accept", "")
    return await _reply(sent, at, _ReplyOptions(asked.wait, stream), request.scope["path"])


@router.post("/chat/reset")
async def reset(request: Request) -> Response:
    """Archive a session (the main one unless named) and begin its successor."""
    at = require_accepting(request)
    asked = await read_body(request, ResetRequest)
    fresh, archived = await at.chats.reset(principal(request, asked.user), asked.session_id)
    name = asked.session_id if asked.session_id and not is_session_id(asked.session_id) else fresh
    return model_response(ResetReply(session_id=name, archived=archived))


FAST_ROUTES = {"/chat": chat, "/chat/stream": chat_stream}
"""Served without FastAPI's own dispatch, which they do not need and which costs a twentieth of a turn. FastAPI still
describes them."""


async def _chat(request: Request, *, stream: bool) -> Response:
    at = require_accepting(request)
    posted = await read_chat_body(request, use_chat.shape_of)
    if isinstance(posted, UseChatRequest):
        only_json = request.headers.get("accept", "").strip() == "application/json"
        wish = _ReplyOptions(
            DEFAULT_WAIT_SECONDS, stream=not only_json or request.scope["path"] == "/chat/stream", through_waits=False
        )
        if posted.messages[-1].role == "assistant":
            return await _submit_answers(request, at, posted, wish)
        return await _reply(await at.chats.send(use_chat.incoming(request, posted)), at, wish, request.scope["path"])
    await _check_model(at, posted)
    sent = await at.chats.send(_incoming(request, posted))
    return await _reply(sent, at, _ReplyOptions(posted.wait, stream), request.scope["path"])


async def _check_model(services: Services, asked: ChatRequest) -> None:
    """Refuse a model that does not exist before anything is admitted."""
    if asked.model is not None:
        await services.models.require(asked.model)


def _incoming(request: Request, own: ChatRequest) -> IncomingMessage:
    return IncomingMessage(
        principal=principal(request, own.user),
        parts=[part.model_dump() for part in own.content],
        session=own.session_id,
        message_id=own.message_id,
        model=own.model,
        agent=own.named_agent,
        on_busy=own.on_busy,
        sender=own.sender,
    )


async def _submit_answers(
    request: Request, services: Services, posted: UseChatRequest, options: _ReplyOptions
) -> Response:
    """Submit the answers in an assistant's message; the stream continues that message."""
    given = tuple(use_chat.answers(posted))
    if not given:
        raise InvalidRequest("nothing to answer", faults=[("messages", "the last message must be the user's")])
    turn = await services.human_answers.submit_all(
        use_chat.speaker(request, posted), posted.id, given, reply_id=posted.messages[-1].id
    )
    if turn is None:
        raise Conflict("nothing waits for these answers", code="not_waiting")
    if options.stream:
        return continued_stream(turn, turn.stream.resume_position)
    return await _respond_json(turn, services, options.wait_seconds, request.scope["path"])


async def _reply(sent: Turn | CompletedTurn, services: Services, options: _ReplyOptions, path: str) -> Response:
    if not options.stream:
        return await _respond_json(sent, services, options.wait_seconds, path)
    if isinstance(sent, Turn):
        return live_stream(sent, services.loop.admission, through_waits=options.through_waits)
    return recorded_stream(sent.reply, sent.outcome.get("error"))


async def _respond_json(sent: Turn | CompletedTurn, services: Services, wait: float, path: str) -> Response:
    """Return the reply as JSON; 202 if it takes longer than the caller waits, a problem if the turn failed."""
    if isinstance(sent, CompletedTurn):
        if "status" not in sent.outcome:  # its end is not recorded yet
            return model_response(ChatPending(status="running", pending=[], **sent.public_ids), 202)
        parts = sent.reply.parts if sent.reply else []
        usage = Usage.model_validate(sent.reply.metadata.get("usage", {}) if sent.reply else {})
        return _finished_response(partial(reply_of, sent.public_ids), parts, usage, sent.outcome, path)
    turn = sent
    names = sent.public_ids()
    try:
        async with asyncio.timeout(wait):
            await turn.paused_or_ended.wait()
            if turn.end.joined_turn is not None:
                turn = turn.end.joined_turn
                await turn.paused_or_ended.wait()
    except TimeoutError:
        pass
    if turn.end.outcome is None or not turn.ended.is_set():
        return model_response(_pending(turn, services, names), 202)
    outcome = turn.end.outcome.json()
    return _finished_response(partial(reply_of, names), turn.end.reply_parts, turn.budget.usage, outcome, path)


def _pending(turn: Turn, services: Services, names: dict[str, str]) -> ChatPending:
    status = "waiting" if turn.state == "waiting" else "queued" if turn.state == "queued" else "running"
    return ChatPending(**names, status=status, pending=services.loop.admission.queues.pending(turn))


def _finished_response(
    reply: Callable[[list[dict[str, Any]], Usage, dict[str, Any]], ChatReply],
    parts: list[dict[str, Any]],
    usage: Usage,
    outcome: dict[str, Any],
    path: str,
) -> Response:
    if outcome.get("status") not in ERROR_STATUSES:
        return model_response(reply(parts, usage, outcome))
    try:
        return _failed_response(reply(parts, usage, outcome), outcome, path)
    except ValueError:  # parts that cannot be recorded, which may be why it failed, cannot be sent either
        return _failed_response(reply([], usage, outcome), outcome, path)


def _failed_response(reply: ChatReply, outcome: dict[str, Any], path: str) -> Response:
    code = str(outcome.get("error_code"))
    wait = outcome.get("retry_after")
    known = code.startswith("model_") or code == "context_overflow"
    status = _STATUSES.get(code, 502 if known else 500)
    detail = str(outcome.get("error") or "the turn failed")
    headers = {"Retry-After": str(math.ceil(wait))} if wait is not None else None
    extra = {"retry_after": wait} if wait is not None else {}
    return problem_response(status, code, detail, path, headers=headers, **extra, **reply.model_dump(mode="json"))
