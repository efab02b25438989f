"""Operations on the turn of a session: watch, stop or answer it, and take messages out of the queue."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import Response

from agent_common.event_ring import parse_event_id
from agent_common.protocol import (
    AbortReply,
    AnswerReply,
    AnswerRequest,
    CancelReply,
    NoQuery,
    PendingQuery,
    StreamQuery,
)

from ...errors import Conflict, NotFound
from ...loop import CompletedTurn, HumanAnswer, LiveSession, list_pending
from ...sessions import branches, history, is_session_id, unknown_session
from ..dependencies import Services, get_services, parse_query, principal, read_body, user_in_header
from ..responses import EventStream, live_stream, model_response, recorded_stream

router = APIRouter(tags=["turns"])


@router.get("/chat/{session}/stream")
async def stream(request: Request, session: str) -> Response:
    """Stream the running turn from its first chunk, then live; 204 if none is running. With `message_id` it is that
    message's turn, also if it has ended. The stream ends when the turn waits for a person, unless `follow` is set."""
    at = get_services(request)
    asked = parse_query(request, StreamQuery)
    found = await at.loop.live_sessions.get(principal(request), session)
    if found is None and is_session_id(session):
        raise unknown_session(session)
    if found is None:
        return Response(status_code=204)
    named = asked.message_id
    turn = await at.chats.find(found, named) if named is not None else at.loop.admission.queues.active_turn(found)
    if turn is None:
        return Response(status_code=204)
    if isinstance(turn, CompletedTurn):
        return recorded_stream(turn.reply, turn.outcome.get("error"))
    return live_stream(turn, at.loop.admission, through_waits=asked.follow)


@router.post("/chat/{session}/abort")
async def abort(request: Request, session: str) -> Response:
    """Stop the session's turn in any state; its output so far is kept. It is no error if there is none."""
    at = get_services(request)
    found = await _require_session(request, at, session)
    turn = at.loop.admission.queues.active_turn(found)
    if turn is None:
        return model_response(AbortReply(session_id=session, aborted=False), exclude_none=True)
    await at.loop.admission.stop(turn)
    aborted = turn.end.outcome is not None and turn.end.outcome.status == "cancelled"
    return model_response(AbortReply(session_id=session, message_id=turn.request.message_name, aborted=aborted))


@router.post("/chat/{session}/answer")
async def answer(request: Request, session: str) -> Response:
    """Answer a question or an approval by its id. The turn continues once it has all its answers."""
    at = get_services(request)
    given = await read_body(request, AnswerRequest)
    turn = await at.human_answers.submit(
        principal(request),
        session,
        HumanAnswer(given.id, given.answers, given.decision, given.scope, given.reason, given.sender),
    )
    status = "waiting" if turn.human_wait.requests else "running"
    reply = AnswerReply(session_id=session, message_id=turn.request.message_name, status=status, pending=turn.pending())
    return model_response(reply)


@router.delete("/chat/{session}/queue/{message_id:path}")
async def cancel(request: Request, session: str, message_id: str) -> Response:
    """Take a message out of the queue. Once its turn has begun, abort the turn instead."""
    at = get_services(request)
    found = await _require_session(request, at, session)
    for turn in at.loop.admission.queues.queue(found):
        if message_id in (
            turn.request.message_name,
            turn.message_id,
        ) and await at.loop.admission.cancel_queued(turn):
            return model_response(CancelReply(session_id=session, message_id=message_id))
    row = await at.loop.database.read(lambda connection: branches.find_turn(connection, found.id, message_id))
    if row is None:
        raise NotFound(f"there is no message {message_id}", code="unknown_message")
    if row.outcome is not None and row.outcome.get("finish_reason") == "abort" and row.state == "ended":
        reply = await at.loop.database.read(lambda connection: history.message(connection, row.reply_id))
        if reply is None:  # it never ran, so it was cancelled already
            return model_response(CancelReply(session_id=session, message_id=message_id))
    raise Conflict(f"message {message_id} does not wait in the queue", code="not_queued")


@router.get("/events")
async def events(request: Request) -> Response:
    """Stream events about turns after the `Last-Event-ID`, or from now on: of the user in the header, or of all."""
    at = get_services(request)
    parse_query(request, NoQuery)
    user = principal(request) if user_in_header(request) else None
    return EventStream(at.loop.events.watch(user, parse_event_id(request.headers.get("last-event-id"))))


@router.get("/pending")
async def pending(request: Request) -> Response:
    """List what waits for a person, oldest first: of the user in the header or the query, else of all users."""
    asked = parse_query(request, PendingQuery)
    user = principal(request, asked.user) if user_in_header(request) or asked.user else None
    return model_response(list_pending(get_services(request).loop, user, asked))


async def _require_session(request: Request, services: Services, session: str) -> LiveSession:
    found = await services.loop.live_sessions.get(principal(request), session)
    if found is None:
        raise unknown_session(session)
    return found
