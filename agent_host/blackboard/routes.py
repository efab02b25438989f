"""`/blackboard`: what the agents of a team share under keys. `?team=` is for the operator, who sees all teams."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from json import JSONDecodeError
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Header, Query, Request
from fastapi.responses import Response
from pydantic import ValidationError
from pydantic_core import to_json
from sqlalchemy import Row

from agent_common.event_ring import parse_event_id
from agent_common.http import pusher
from agent_common.protocol import (
    MAX_VALUE_BYTES,
    ChangeList,
    Claim,
    Entry,
    EntryList,
)

from ..access import TeamMember, identify_member, may_watch
from ..feeds import Client
from ..http import EventStream, Handler, ValueRoute, cause_of, parse_condition, parse_known
from .blackboard import Blackboard
from .entries import Page, render_change, render_entry
from .errors import ValueTooLarge
from .keys import check_key, check_prefix
from .schemas import ClaimBody, EntryBody

_LAST_VERSION = (1 << 63) - 1


class _EntryRoute(ValueRoute):
    """Calls `read` and `put` without FastAPI."""

    def handle_directly(self, handle: Handler) -> Handler:
        async def call_read(request: Request) -> Response:
            member = await identify_member(request)
            return await read(request, member, request.path_params["key"], request.headers.get("if-none-match"))

        async def call_put(request: Request) -> Response:
            member = await identify_member(request)
            headers = request.headers
            try:
                body = EntryBody.model_validate(await request.json())
            except (ValidationError, JSONDecodeError):
                return await handle(request)  # which says what is wrong
            conditions = headers.get("if-match"), headers.get("if-none-match")
            return await put(request, member, request.path_params["key"], body, *conditions)

        return call_read if self.body_field is None else call_put


router = APIRouter(prefix="/blackboard", route_class=ValueRoute)
_entries = APIRouter(prefix="/blackboard", route_class=_EntryRoute)
Member = Annotated[TeamMember, Depends(identify_member)]
IfMatch = Annotated[str | None, Header(description="Only if the entry has one of these versions")]
IfNoneMatch = Annotated[str | None, Header(description="`*`: only if there is no such entry")]


def _board(request: Request) -> Blackboard:
    return request.app.state.blackboard


@router.get("", response_model=EntryList)
async def list_entries(
    request: Request,
    member: Member,
    prefix: Annotated[str, Query(description="Only keys that begin so")] = "",
    after: Annotated[str | None, Query(description="`next` of the page before")] = None,
    limit: Annotated[int, Query(ge=1, le=1000, description="How many entries")] = 100,
) -> Response:
    """List entries by key. The answer's `Last-Event-ID` is where a watcher goes on to miss nothing."""
    check_prefix(prefix)
    page = await _board(request).list(
        member.team, prefix, None if after is None else check_prefix(after, "after"), limit
    )
    return _page_response(page, render_entry, {"last-event-id": str(page.position)})


@router.get("/watch", response_class=EventStream, status_code=200)
async def watch(
    request: Request,
    member: Member,
    prefix: Annotated[str, Query(description="Only keys that begin so")] = "",
    last_event_id: Annotated[str | None, Header(max_length=100, description="The last event that came")] = None,
) -> EventStream:
    """Stream changes, after the last event that came or from now on."""
    after = parse_event_id(last_event_id)
    client = Client(member.name, may_watch(request, member), pusher(request.scope))
    return EventStream(await _board(request).watch(member.team, check_prefix(prefix), after, client))


@router.get("/{key:path}/history", response_model=ChangeList)
async def history(
    request: Request,
    member: Member,
    key: str,
    after: Annotated[int | None, Query(ge=0, le=_LAST_VERSION, description="`next` of the page before")] = None,
    limit: Annotated[int, Query(ge=1, le=1000, description="How many changes")] = 100,
) -> Response:
    """List the changes of a key, the newest first."""
    page = await _board(request).history(member.team, check_key(key), after, limit)
    return _page_response(page, render_change, {})


@router.post("/{key:path}/claim")
async def claim(request: Request, member: Member, key: str, body: ClaimBody) -> Claim:
    """Claim an entry for a while, or renew the claim; 409 `claimed` if another agent has it."""
    return await _board(request).claim(member, check_key(key), body.lease_seconds)


@router.delete("/{key:path}/claim", status_code=204)
async def release(request: Request, member: Member, key: str) -> Response:
    """End the caller's claim of an entry; without one, do nothing."""
    await _board(request).release(member, check_key(key))
    return Response(status_code=204)


@_entries.get("/{key:path}", response_model=Entry)
async def read(request: Request, member: Member, key: str, if_none_match: IfNoneMatch = None) -> Response:
    """Read an entry; 304 if it has the version that the caller names."""
    known = parse_known(if_none_match)
    row = await _board(request).get(member.team, check_key(key))
    if known is not None and known.holds(row.version):
        return Response(status_code=304, headers=_tag(row))
    return Response(render_entry(row), headers=_tag(row), media_type="application/json")


@_entries.put("/{key:path}", response_model=Entry)
async def put(
    request: Request,
    member: Member,
    key: str,
    body: EntryBody,
    if_match: IfMatch = None,
    if_none_match: IfNoneMatch = None,
) -> Response:
    """Write an entry: 201 for a new one, else 200; 412 `version_conflict` with what is there."""
    checked = check_key(key)
    condition = parse_condition(if_match, if_none_match)
    value = to_json(body.value)
    if len(value) > MAX_VALUE_BYTES:
        raise ValueTooLarge(f"value: has {len(value)} bytes as JSON; at most {MAX_VALUE_BYTES} are allowed")
    cause = cause_of(request)
    row, created = await _board(request).put(member, cause, checked, value.decode(), ttl=body.ttl, condition=condition)
    return Response(render_entry(row), 201 if created else 200, _tag(row), media_type="application/json")


@router.delete("/{key:path}", status_code=204)
async def delete(request: Request, member: Member, key: str, if_match: IfMatch = None) -> Response:
    """Delete an entry, and its claim."""
    condition = parse_condition(if_match, None)
    await _board(request).delete(member, cause_of(request), check_key(key), condition)
    return Response(status_code=204)


router.routes.extend(_entries.routes)


def _tag(row: Row[Any]) -> dict[str, str]:
    return {"etag": f'"{row.version}"'}


def _page_response(page: Page, render: Callable[[Row[Any]], bytes], headers: dict[str, str]) -> Response:
    rows: Sequence[bytes] = [render(row) for row in page.rows]
    rest = b"" if page.next is None else b',"next":' + to_json(page.next)
    return Response(b'{"entries":[%b]%b}' % (b",".join(rows), rest), headers=headers, media_type="application/json")
