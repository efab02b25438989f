"""`/agents`: who is there, and work that agents give each other. An agent sees its own team, the operator all."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import unquote

from fastapi import APIRouter, Depends, Header, Query, Request
from fastapi.responses import Response

from agent_common.protocol import ASK_KEY, USER_HEADER, AskReply, CancelledAsk, HandedOff, PeerAgent, PeerList

from ..access import TeamMember, identify_member
from ..errors import Forbidden
from ..http import JsonRoute, cause_of
from .callers import WorkOnHand
from .cards import AgentCards, CardQuery
from .requests import AgentRequests
from .schemas import AskBody, CardBody, HandOffBody

router = APIRouter(prefix="/agents", route_class=JsonRoute)
Member = Annotated[TeamMember, Depends(identify_member)]
_KEY = Header(pattern=ASK_KEY, description="Names the message: the same again is the same work")
Key = Annotated[str | None, _KEY]


def _cards(request: Request) -> AgentCards:
    return request.app.state.agent_cards


def _requests(request: Request) -> AgentRequests:
    return request.app.state.agent_requests


def _team_of(request: Request, member: TeamMember) -> str | None:
    """Return the team whose cards the caller sees; None: of all teams."""
    return None if member.is_operator and "team" not in request.query_params else member.team


def _on_hand(request: Request) -> WorkOnHand:
    """Return what the caller does, as its headers say."""
    user = request.headers.get(USER_HEADER)
    return WorkOnHand(cause_of(request).task, unquote(user) if user is not None else None)


@router.post("")
async def post_card(request: Request, member: Member, body: CardBody) -> PeerAgent:
    """Say what the agent is and can do, in place of what it has said before."""
    if member.is_operator:
        raise Forbidden("a card is posted by its agent, with the agent's own token")
    return await _cards(request).post(member.name, member.team, body)


@router.get("")
async def list_agents(
    request: Request,
    member: Member,
    *,
    capability: Annotated[
        str | None, Query(max_length=200, description="Only with a skill, tool, agent or protocol of this name")
    ] = None,
    q: Annotated[str | None, Query(max_length=200, description="Only with this text in the card or the id")] = None,
    after: Annotated[str | None, Query(max_length=100, description="`next` of the page before")] = None,
    limit: Annotated[int, Query(ge=1, le=1000, description="How many agents")] = 100,
) -> PeerList:
    """List agents that have posted their cards, by id."""
    return await _cards(request).list(CardQuery(_team_of(request, member), capability, q, after, limit))


@router.get("/{agent_id}")
async def get_agent(request: Request, member: Member, agent_id: str) -> PeerAgent:
    """Read the card of an agent."""
    return await _cards(request).get(agent_id, _team_of(request, member))


@router.post("/{agent_id}/ask")
async def ask(request: Request, member: Member, agent_id: str, body: AskBody, idempotency_key: Key = None) -> AskReply:
    """Give an agent a message as work, and wait until it is over or the deadline has passed."""
    return await _requests(request).ask(member, agent_id, body, idempotency_key, _on_hand(request))


@router.delete("/{agent_id}/ask")
async def cancel(
    request: Request, member: Member, agent_id: str, idempotency_key: Annotated[str, _KEY]
) -> CancelledAsk:
    """Cancel the work that the caller has given the agent with this key. No effect if it has ended."""
    return await _requests(request).cancel(member, agent_id, idempotency_key)


@router.post("/{agent_id}/hand-off", status_code=202, response_model=HandedOff)
async def hand_off(
    request: Request, member: Member, agent_id: str, body: HandOffBody, idempotency_key: Key = None
) -> Response:
    """Give an agent a message as work, which is done whenever it is there: 202; 200 for the same again."""
    found, created = await _requests(request).hand_off(member, agent_id, body, idempotency_key, _on_hand(request))
    return Response(found.model_dump_json(), 202 if created else 200, media_type="application/json")
