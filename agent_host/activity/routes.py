"""`/pending` and `/events`, for the operator and for people within the scope of their token."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from time import monotonic
from typing import Annotated

from fastapi import APIRouter, Depends, Header, Query, Request

from agent_common.event_ring import HEARTBEAT_SECONDS, parse_event_id

from ..access import AccessGuard, HostCaller, identify_person, visible_users
from ..errors import RequestError
from ..http import EventStream, JsonRoute
from .activity import Activity
from .pending import parse_cursor
from .schemas import PendingPage
from .view import view_of

RECHECK_SECONDS = 5.0
"""How often a scoped token is checked again while its stream is open."""
_MOST_CURSOR = 32_768
"""Longest `next` of a page. It names each agent with rows so far, in 14 characters."""
router = APIRouter(route_class=JsonRoute)
Person = Annotated[HostCaller, Depends(identify_person)]
_WORKSPACE = Query(max_length=100, description="Only of this workspace")
_USER = Query(min_length=1, max_length=200, description="Only of this user")


def _activity(request: Request) -> Activity:
    return request.app.state.activity


@router.get("/pending")
async def pending(
    request: Request,
    caller: Person,
    workspace: Annotated[str | None, _WORKSPACE] = None,
    user: Annotated[str | None, _USER] = None,
    after: Annotated[str | None, Query(max_length=_MOST_CURSOR, description="`next` of the page before")] = None,
    limit: Annotated[int, Query(ge=1, le=500, description="How many requests")] = 50,
) -> PendingPage:
    """List the questions and approvals that wait for a person in the agents that run, oldest first. An agent that does
    not answer is named in `unreachable`."""
    view = view_of(caller, workspace, visible_users(caller, request.headers.raw, user))
    position = parse_cursor(after) if after is not None else None
    return await _activity(request).pending.page(view, workspace, limit, position)


@router.get("/events", response_class=EventStream, status_code=200)
async def events(
    request: Request,
    caller: Person,
    workspace: Annotated[str | None, _WORKSPACE] = None,
    user: Annotated[str | None, _USER] = None,
    last_event_id: Annotated[str | None, Header(max_length=100, description="The last event that came")] = None,
) -> EventStream:
    """Stream what happens to workspaces, work and turns, after the last event that came or from now on."""
    view = view_of(caller, workspace, visible_users(caller, request.headers.raw, user))
    after = parse_event_id(last_event_id)
    heartbeat = HEARTBEAT_SECONDS if caller.scope is None else RECHECK_SECONDS
    stream = _activity(request).watch(view, after=after, holder=caller.agent_id, heartbeat=heartbeat)
    return EventStream(stream if caller.scope is None else _while_valid(stream, request, caller))


async def _while_valid(stream: AsyncGenerator[bytes], request: Request, caller: HostCaller) -> AsyncGenerator[bytes]:
    """Pass the stream on until the token of the request has expired, is revoked, or has lost a workspace."""
    guard: AccessGuard = request.app.state.guard
    checked = monotonic()
    try:
        async for piece in stream:
            if monotonic() - checked >= RECHECK_SECONDS:
                if (await guard.authenticate(request.scope, scoped=True)).scope != caller.scope:
                    return
                checked = monotonic()
            yield piece
    except RequestError:
        return
    finally:
        await stream.aclose()
