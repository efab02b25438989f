"""`/permissions`: what the caller has allowed, or ruled otherwise, for all of their sessions with an agent."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import Response

from agent_common.protocol import AgentPermissionsQuery, AgentPermissionsUpdate, NoQuery

from ..dependencies import get_services, parse_query, principal, read_body, require_accepting
from ..responses import model_response

router = APIRouter(tags=["permissions"])


@router.get("/permissions")
async def permissions(request: Request) -> Response:
    """List the agents for which the caller has rules."""
    asked = parse_query(request, AgentPermissionsQuery)
    return model_response(await get_services(request).agent_permissions.list(principal(request), asked.agent))


@router.get("/permissions/{agent}")
async def agent_permissions(request: Request, agent: str) -> Response:
    """Return the rules that apply in all of the caller's sessions with an agent, by origin."""
    parse_query(request, NoQuery)
    return model_response(await get_services(request).agent_permissions.get(principal(request), agent))


@router.put("/permissions/{agent}")
async def permit(request: Request, agent: str) -> Response:
    """Replace the caller's own rules for an agent."""
    at = require_accepting(request)
    asked = await read_body(request, AgentPermissionsUpdate)
    return model_response(await at.agent_permissions.set(principal(request), agent, asked))


@router.delete("/permissions/{agent}")
async def take_back(request: Request, agent: str) -> Response:
    """Take back all of the caller's own rules for an agent. It may be gone."""
    return model_response(await get_services(request).agent_permissions.clear(principal(request), agent))
