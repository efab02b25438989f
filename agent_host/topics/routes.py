"""`/topics`: messages of the agents of a team. `?team=` is for the operator, who sees all teams."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Header, Query, Request
from fastapi.responses import Response
from pydantic_core import to_json

from agent_common.event_ring import parse_event_id
from agent_common.http import pusher
from agent_common.protocol import MAX_VALUE_BYTES, Published, TopicMessages

from ..access import TeamMember, identify_member, may_watch
from ..errors import Forbidden, RequestError
from ..feeds import Client
from ..http import EventStream, ValueRoute, cause_of
from .messages import render_message
from .names import check_message_id, check_name
from .schemas import MessageBody
from .topics import Topics

_LAST_SEQ = (1 << 63) - 1
router = APIRouter(prefix="/topics", route_class=ValueRoute)
Member = Annotated[TeamMember, Depends(identify_member)]


class MessageTooLarge(RequestError):
    """The message is too large."""

    status = 413
    code = "value_too_large"


def _topics(request: Request) -> Topics:
    return request.app.state.topics


@router.post("/{name}", status_code=201, response_model=Published)
async def publish(request: Request, member: Member, name: str, body: MessageBody) -> Response:
    """Publish a message: 201; 200 for the same again; 409 `message_conflict` for another with its id."""
    data = to_json(body.data)
    if len(data) > MAX_VALUE_BYTES:
        raise MessageTooLarge(f"data: has {len(data)} bytes as JSON; at most {MAX_VALUE_BYTES} are allowed")
    chosen = check_message_id(body.id) if body.id is not None else None
    found, created = await _topics(request).publish(member, cause_of(request), check_name(name), chosen, data.decode())
    return Response(found.model_dump_json(), 201 if created else 200, media_type="application/json")


@router.get("/{name}", response_model=TopicMessages)
async def read(
    request: Request,
    member: Member,
    name: str,
    *,
    accept: Annotated[str, Header(max_length=1000, description="`text/event-stream` for a stream")] = "",
    last_event_id: Annotated[str | None, Header(max_length=100, description="The last event that came")] = None,
    after: Annotated[int | None, Query(ge=0, le=_LAST_SEQ, description="Only messages with a larger seq")] = None,
    limit: Annotated[int, Query(ge=1, le=1000, description="How many messages")] = 100,
) -> Response:
    """List stored messages, the oldest first, or stream those after the last one that came."""
    topics = _topics(request)
    checked = check_name(name)
    if "text/event-stream" in accept:
        position = after if last_event_id is None else parse_event_id(last_event_id)
        client = Client(member.name, may_watch(request, member), pusher(request.scope))
        return EventStream(await topics.watch(member.team, checked, position, client))
    page = await topics.messages(member.team, checked, after or 0, limit)
    messages = b",".join(render_message(row) for row in page.rows)
    rest = b"" if page.next is None else b',"next":%d' % page.next
    return Response(b'{"messages":[%b]%b}' % (messages, rest), media_type="application/json")


@router.delete("/{name}", status_code=204)
async def delete(request: Request, member: Member, name: str) -> Response:
    """Delete a topic with its messages, for the operator."""
    if not member.is_operator:
        raise Forbidden
    await _topics(request).delete(member.team, check_name(name))
    return Response(status_code=204)
