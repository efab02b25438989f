"""Callers of what the agents of a team share: an agent sees its own team, the operator any that it names."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Annotated

from fastapi import Query, Request

from ..errors import NotFound, RequestError
from .guard import AccessGuard, identify
from .teams import DEFAULT_TEAM, Teams

_TEAM = Query(
    pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$", description="The team, for the operator; unset it is `default`"
)


@dataclass(frozen=True, slots=True)
class TeamMember:
    """A caller, and the team in which it acts."""

    name: str
    """The agent's id, or `operator`."""
    team: str
    is_operator: bool


async def identify_member(request: Request, team: Annotated[str | None, _TEAM] = None) -> TeamMember:
    """FastAPI dependency for routes of agents and of the operator. Raises NotFound if an agent names another team."""
    caller = await identify(request)
    if caller.is_operator:
        return TeamMember(caller.agent_id, team or DEFAULT_TEAM, is_operator=True)
    teams: Teams = request.app.state.teams
    own = await teams.team_of(caller.agent_id)
    if team not in (None, own):
        raise NotFound(f"there is no team {team!r}")
    return TeamMember(caller.agent_id, own, is_operator=False)


def may_watch(request: Request, member: TeamMember) -> Callable[[], Awaitable[bool]]:
    """Return a function that asks whether the request's token is still valid, and its caller still in the team."""
    guard: AccessGuard = request.app.state.guard
    teams: Teams = request.app.state.teams

    async def ask() -> bool:
        try:
            await guard.authenticate(request.scope)
        except RequestError:
            return False
        return member.is_operator or await teams.team_of(member.name) == member.team

    return ask
