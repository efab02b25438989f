"""`/subscriptions`: agents subscribe and receive; an agent sees its own, the operator all or those of a team."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import Response

from agent_common.protocol import Subscription, SubscriptionList, TopicDeadLetters, TopicDeliveries

from ..access import TeamMember, identify_member
from ..errors import Forbidden
from ..http import JsonRoute
from ..topics import check_name
from .rows import SubscriptionQuery
from .schemas import ReceiveBody, SubscribeBody
from .subscriptions import Subscriptions

_LAST_ID = (1 << 63) - 1
router = APIRouter(prefix="/subscriptions", route_class=JsonRoute)
Member = Annotated[TeamMember, Depends(identify_member)]
Limit = Annotated[int, Query(ge=1, le=1000, description="How many")]


def _subscriptions(request: Request) -> Subscriptions:
    return request.app.state.subscriptions


def _agent(member: TeamMember) -> TeamMember:
    """Return the caller if it is an agent. Raises Forbidden."""
    if member.is_operator:
        raise Forbidden("an agent subscribes and receives for itself, with its own token")
    return member


def _chosen_team(request: Request, member: TeamMember) -> str | None:
    """Return the team of a list: for the operator the one that is named, or all."""
    return member.team if not member.is_operator or "team" in request.query_params else None


@router.post("", status_code=201, response_model=Subscription)
async def subscribe(request: Request, member: Member, body: SubscribeBody) -> Response:
    """Subscribe a session of the agent to a topic of its team: 201; 200 for the same again."""
    topic = check_name(body.topic, "topic")
    found, created = await _subscriptions(request).subscribe(_agent(member), body.session, topic)
    return Response(found.model_dump_json(), 201 if created else 200, media_type="application/json")


@router.get("")
async def list_subscriptions(
    request: Request,
    member: Member,
    *,
    agent: Annotated[str | None, Query(max_length=100, description="Only of this agent")] = None,
    session: Annotated[str | None, Query(max_length=200, description="Only of this session")] = None,
    topic: Annotated[str | None, Query(max_length=200, description="Only to this topic")] = None,
    after: Annotated[str, Query(max_length=40, description="`next` of the page before")] = "",
    limit: Limit = 100,
) -> SubscriptionList:
    """List subscriptions by id."""
    team = _chosen_team(request, member) if member.is_operator else None
    whose = agent if member.is_operator else member.name
    return await _subscriptions(request).list(SubscriptionQuery(whose, team, session, topic, after, limit))


@router.post("/deliveries")
async def receive(request: Request, member: Member, body: ReceiveBody) -> TopicDeliveries:
    """Acknowledge deliveries, and receive what is due, at most so many seconds later."""
    return await _subscriptions(request).receive(_agent(member), body)


@router.get("/dead-letters")
async def dead_letters(
    request: Request,
    member: Member,
    after: Annotated[int, Query(ge=0, le=_LAST_ID, description="`next` of the page before")] = 0,
    limit: Limit = 100,
) -> TopicDeadLetters:
    """List the messages that their agents have not taken, for the operator, the oldest first."""
    if not member.is_operator:
        raise Forbidden
    return await _subscriptions(request).dead_letters(_chosen_team(request, member), after, limit)


@router.delete("/{subscription_id}", status_code=204)
async def end(request: Request, member: Member, subscription_id: str) -> Response:
    """End a subscription; what waits for it is not delivered any more."""
    await _subscriptions(request).end(subscription_id, None if member.is_operator else member.name)
    return Response(status_code=204)
