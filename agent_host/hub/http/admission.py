"""What a caller of the host may do on the hub."""

from __future__ import annotations

import re
from functools import partial

from sqlalchemy.exc import SQLAlchemyError

from agent_common.protocol.hub import HubUnavailable

from ...access import HostCaller, Teams
from ...errors import Forbidden
from ..links import LinkRights, Reach

PEOPLE = "user."
"""How the names of people begin. No agent's token speaks for one."""
_LONGEST = 100
_PLAIN = re.compile("[A-Za-z0-9-]")


def rights_of(caller: HostCaller, user: str | None, teams: Teams) -> LinkRights:
    """Return the rights of a link. `user`: whom the caller's token speaks for, if it is a scoped one. An agent finds
    and invites no agent of a workspace of another team.

    Raises Forbidden if it can have none."""
    if caller.is_operator:
        return LinkRights(reads_all=True)
    if caller.scope is None:
        if caller.agent_id.startswith(PEOPLE):
            raise Forbidden(f"{caller.agent_id!r} cannot be on the hub: names that begin with {PEOPLE!r} are people's")
        return LinkRights(caller.agent_id, reach=partial(_reach_of_agent, teams, caller.agent_id))
    return LinkRights(name_of(user or ""), reach=partial(_reach_of_person, caller.scope.workspaces))


async def _reach_of_agent(teams: Teams, agent_id: str) -> Reach:
    """Teams are read each time: the one of a workspace may change while its link is open."""
    try:
        strangers = await teams.strangers(agent_id)
    except SQLAlchemyError as error:
        raise HubUnavailable("the hub cannot read the teams of agents now", retry_after=1.0) from error
    return lambda name: name not in strangers


async def _reach_of_person(workspaces: frozenset[str]) -> Reach:
    return lambda name: name in workspaces


def name_of(user: str) -> str:
    """Return the name of a person on the hub, another one for each: `user.ann`, `user.telegram_3a7`. Raises Forbidden
    if it would be too long."""
    name = PEOPLE + "".join(
        one if _PLAIN.fullmatch(one) else "".join(f"_{byte:02x}" for byte in one.encode()) for one in user
    )
    if len(name) > _LONGEST:
        raise Forbidden(f"the user {user!r} cannot be on the hub: that name has more than {_LONGEST} characters there")
    return name
