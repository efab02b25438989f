"""`/sessions`: conversations as a resource. A name in a path is an id or the caller's own alias."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator
from typing import BinaryIO

from fastapi import APIRouter, Request
from fastapi.responses import Response, StreamingResponse
from pydantic_core import to_json

from agent_common.protocol import (
    ExportQuery,
    ForkRequest,
    ImportQuery,
    MessagesQuery,
    NoQuery,
    PermissionsUpdate,
    RewindRequest,
    SessionDetail,
    SessionPatch,
    SessionsQuery,
)

from ..dependencies import get_services, parse_query, principal, read_body, require_accepting
from ..responses import model_response

router = APIRouter(tags=["sessions"])
JSONL = "application/jsonl"
PIECE = 64 * 1024


@router.get("/sessions")
async def sessions(request: Request) -> Response:
    """List the caller's sessions, the one that changed last first."""
    asked = parse_query(request, SessionsQuery)
    return model_response(await get_services(request).sessions.page(principal(request), asked))


@router.post("/sessions/import", status_code=201)
async def take_in(request: Request) -> Response:
    """Store a session that was exported here or elsewhere. Its prompt is made anew, and its rules are left out unless
    they are to be kept."""
    at = require_accepting(request)
    keep = parse_query(request, ImportQuery).permissions == "keep"
    body = io.BytesIO(await request.body())
    return _made(await at.sessions.import_session(principal(request), body, keep_permissions=keep))


@router.get("/sessions/{session_id}")
async def session(request: Request, session_id: str) -> Response:
    """Return one session: its status, its queue and its usage."""
    parse_query(request, NoQuery)
    return model_response(await get_services(request).sessions.get(principal(request), session_id))


@router.patch("/sessions/{session_id}")
async def patch(request: Request, session_id: str) -> Response:
    """Change title, metadata or model, or archive and unarchive the session."""
    at = require_accepting(request)
    asked = await read_body(request, SessionPatch)
    if "model" in asked.model_fields_set:
        await at.models.require(asked.model)
    return model_response(await at.sessions.patch(principal(request), session_id, asked))


@router.delete("/sessions/{session_id}")
async def archive(request: Request, session_id: str) -> Response:
    """Archive the session and stop its turns. Nothing is deleted."""
    return model_response(await get_services(request).sessions.archive(principal(request), session_id))


@router.get("/sessions/{session_id}/messages")
async def messages(request: Request, session_id: str) -> Response:
    """List the messages in the shape of the AI SDK's frontends, oldest first."""
    asked = parse_query(request, MessagesQuery)
    return model_response(await get_services(request).sessions.messages(principal(request), session_id, asked))


@router.get("/sessions/{session_id}/export")
async def export(request: Request, session_id: str) -> Response:
    """Export all rows of the session, as JSON Lines or as one JSON document."""
    whole = parse_query(request, ExportQuery).format == "json"
    file = await get_services(request).sessions.export(principal(request), session_id, whole=whole)
    return StreamingResponse(_pieces(file), media_type="application/json" if whole else JSONL)


@router.get("/sessions/{session_id}/prompt")
async def prompt(request: Request, session_id: str) -> Response:
    """Return the prompt, tools and messages as the next model call would send them."""
    parse_query(request, NoQuery)
    seen = await get_services(request).sessions.prompt_view(principal(request), session_id)
    known = {"session_id": session_id, "digest": seen.digest, "prompt": seen.prompt, "model": seen.model}
    head = to_json({**known, "context_tokens": seen.context_tokens, "tools": seen.tools})
    whole = b"".join((head[:-1], b',"messages":[', b",".join(seen.messages), b"]}"))  # byte for byte as in the view
    return Response(whole, media_type="application/json")


@router.get("/sessions/{session_id}/permissions")
async def permissions(request: Request, session_id: str) -> Response:
    """Return the rules that apply in this session, by origin."""
    parse_query(request, NoQuery)
    return model_response(await get_services(request).sessions.permissions(principal(request), session_id))


@router.put("/sessions/{session_id}/permissions")
async def permit(request: Request, session_id: str) -> Response:
    """Replace the session's own rules."""
    at = require_accepting(request)
    asked = await read_body(request, PermissionsUpdate)
    return model_response(await at.sessions.set_permissions(principal(request), session_id, asked))


@router.post("/sessions/{session_id}/fork", status_code=201)
async def fork(request: Request, session_id: str) -> Response:
    """Create a session that begins with the messages of this one."""
    at = require_accepting(request)
    return _made(await at.sessions.fork(principal(request), session_id, await read_body(request, ForkRequest)))


@router.post("/sessions/{session_id}/rewind")
async def rewind(request: Request, session_id: str) -> Response:
    """Hide a user message and everything after it."""
    at = require_accepting(request)
    asked = await read_body(request, RewindRequest)
    return model_response(await at.sessions.rewind(principal(request), session_id, asked.message_id))


@router.post("/sessions/{session_id}/compact")
async def compact(request: Request, session_id: str) -> Response:
    """Summarize the conversation so far. From then on the model sees the summary instead."""
    at = require_accepting(request)
    return model_response(await at.sessions.compact(principal(request), session_id))


@router.post("/sessions/{session_id}/unrewind")
async def unrewind(request: Request, session_id: str) -> Response:
    """Undo the latest rewind."""
    at = require_accepting(request)
    return model_response(await at.sessions.unrewind(principal(request), session_id))


def _made(made: SessionDetail) -> Response:
    reply = model_response(made, 201)
    reply.headers["Location"] = f"/sessions/{made.id}"
    return reply


async def _pieces(file: BinaryIO) -> AsyncIterator[bytes]:
    """Yield the file in pieces, then close it."""
    try:
        while piece := await asyncio.to_thread(file.read, PIECE):
            yield piece
    finally:
        file.close()
