"""`/chat`: a person's message in; the reply as one JSON object or as the AI SDK's stream."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response
from pydantic_core import from_json

from ..errors import InvalidRequest
from ..loop import Finished, Incoming, Turn, reply_of
from ..protocol import (
    DEFAULT_WAIT_SECONDS,
    ChatPending,
    ChatReply,
    ChatRequest,
    ResetReply,
    ResetRequest,
    Usage,
    UseChatRequest,
)
from ..sessions import is_session_id
from .desk import Desk, body, open_desk, principal
from .problems import problem
from .replies import live_stream, message, recorded_stream

router = APIRouter(tags=["chat"])


@dataclass(frozen=True, slots=True)
class _Asked:
    """What a chat body asks for."""

    incoming: Incoming
    wait: float
    stream: bool


@router.post("/chat")
async def chat(request: Request) -> Response:
    """Sends a message. The reply is a stream when the caller asks for one, else JSON."""
    at = open_desk(request)
    asked = await _read(request)
    sent = await at.chats.send(asked.incoming)
    if asked.stream:
        return _stream(sent, at)
    return await _collected(sent, asked.wait, request.url.path)


@router.post("/chat/stream")
async def chat_stream(request: Request) -> Response:
    """Sends a message; the reply is always a stream."""
    at = open_desk(request)
    asked = await _read(request)
    return _stream(await at.chats.send(asked.incoming), at)


@router.post("/chat/reset")
async def reset(request: Request) -> Response:
    """Archives a session (the main one unless named) and begins its successor."""
    at = open_desk(request)
    asked = await body(request, ResetRequest)
    fresh, archived = await at.chats.reset(principal(request, asked.user), asked.session_id)
    name = asked.session_id if asked.session_id and not is_session_id(asked.session_id) else fresh
    return message(ResetReply(session_id=name, archived=archived))


async def _read(request: Request) -> _Asked:
    """Our own body, or the one that the AI SDK's `useChat` sends, told apart by `messages`."""
    raw = await request.body() or b"{}"
    accept = request.headers.get("accept", "")
    if _is_use_chat(raw):
        asked = _from_use_chat(request, UseChatRequest.model_validate_json(raw))
        return _Asked(asked, DEFAULT_WAIT_SECONDS, stream=accept.strip() != "application/json")
    own = ChatRequest.model_validate_json(raw)
    if own.agent not in (None, "default"):
        raise InvalidRequest(f"there is no agent {own.agent}", faults=[("agent", "must be default")])
    incoming = Incoming(
        principal=principal(request, own.user),
        parts=[part.model_dump() for part in own.content],
        session=own.session_id,
        message_id=own.message_id,
        model=own.model,
        on_busy=own.on_busy,
    )
    return _Asked(incoming, own.wait, stream="text/event-stream" in accept)


def _is_use_chat(raw: bytes) -> bool:
    if b'"messages"' not in raw:
        return False
    try:
        parsed: Any = from_json(raw)
    except ValueError:
        return False
    return isinstance(parsed, dict) and "messages" in parsed


def _from_use_chat(request: Request, asked: UseChatRequest) -> Incoming:
    last = asked.messages[-1]
    if last.role != "user":
        raise InvalidRequest("nothing to answer", faults=[("messages", "the last message must be the user's")])
    if asked.trigger != "submit-message":
        raise InvalidRequest("a reply cannot be made again", faults=[("trigger", "must be submit-message")])
    texts = [part.get("text") for part in last.parts if part.get("type") == "text"]
    parts = [{"type": "text", "text": text} for text in texts if isinstance(text, str)]
    if len(parts) < len(texts):
        raise InvalidRequest("a text part has no text", faults=[("messages", "the text of a part must be a string")])
    others = sorted({str(part.get("type")) for part in last.parts} - {"text"})
    if others or not parts:
        raise InvalidRequest(
            "only text is understood", faults=[("messages", f"unsupported parts: {', '.join(others)}")]
        )
    return Incoming(principal=principal(request), parts=parts, session=asked.id, message_id=last.id or None)


def _stream(sent: Turn | Finished, at: Desk) -> Response:
    if isinstance(sent, Turn):
        return live_stream(sent, at.hallway.admission)
    return recorded_stream(sent.reply, sent.outcome.get("error"))


async def _collected(sent: Turn | Finished, wait: float, path: str) -> Response:
    """The reply as JSON; 202 when it takes longer than the caller waits, a problem when the turn failed."""
    if isinstance(sent, Finished):
        parts = sent.reply.parts if sent.reply else []
        usage = Usage.model_validate(sent.reply.metadata.get("usage", {}) if sent.reply else {})
        return _answer(reply_of(sent.names, parts, usage, sent.outcome), sent.outcome, path)
    try:
        async with asyncio.timeout(wait):
            await sent.ended.wait()
    except TimeoutError:
        pass
    if not sent.ended.is_set() or sent.outcome is None:
        status = "queued" if sent.state == "queued" else "running"
        pending = ChatPending(**sent.names(), status=status)
        return message(pending, 202, exclude_none=True)
    outcome = sent.outcome.json()
    return _answer(reply_of(sent.names(), sent.reply, sent.books.usage, outcome), outcome, path)


def _answer(reply: ChatReply, outcome: dict[str, Any], path: str) -> Response:
    if outcome.get("status") not in ("failed", "timeout"):
        return message(reply)
    code = str(outcome.get("error_code"))
    known = code.startswith("model_") or code == "context_overflow"
    status = 502 if known else 504 if code == "deadline_exceeded" else 500
    detail = str(outcome.get("error") or "the turn failed")
    return problem(status, code, detail, path, **reply.model_dump(mode="json"))
