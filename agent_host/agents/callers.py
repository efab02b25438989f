"""Who asks for what: the chain of callers and the authority that travel with the work, and only narrow.

An agent that asks while it does work of the host asks in the name of that work: for its user, within its scope and its
limits. Otherwise it asks for itself.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, func, insert, select

from agent_common.protocol.work import Principal, WorkBounds, WorkRequest

from ..access import TeamMember
from ..database import agent_requests, work
from ..errors import TooMany, cut
from .errors import AskedInCircle, AskedTooDeep

MAX_CALLERS = 5
"""Agents that may have asked each other up to one piece of work."""
MOST_OPEN = 64
"""Requests of one caller that are not over."""
_ADMISSION_MS = 60_000
"""For how long a request without a row in the ledger of work counts as one that is being admitted."""


@dataclass(frozen=True, slots=True)
class Lineage:
    """What travels with the work."""

    callers: tuple[str, ...]
    """Who has asked whom, the first caller first; the last one is who asks now. The operator is not among them."""
    principal: Principal
    bounds: WorkBounds


def lineage_of(member: TeamMember, parent: WorkRequest | None, before: Sequence[str], seconds: float) -> Lineage:
    """Return the lineage of new work. `parent`: the work that the caller does; `before`: that work's callers."""
    own = () if member.is_operator else (member.name,)
    longest = math.ceil(seconds)
    if parent is None:
        principal = Principal(
            name="operator" if member.is_operator else f"agent:{member.name}",
            kind="user" if member.is_operator else "agent",
            verified=True,
            verified_by="operator-token" if member.is_operator else "agent-token",
        )
        return Lineage((*before, *own), principal, WorkBounds(max_duration_seconds=longest))
    asked_by = f"{parent.principal.verified_by or 'host'}; asked by agent {member.name}"
    principal = parent.principal.model_copy(update={"verified_by": cut(asked_by, 500)})
    limits = parent.bounds or WorkBounds()
    seconds_left = min(longest, limits.max_duration_seconds or longest)
    return Lineage((*before, *own), principal, limits.model_copy(update={"max_duration_seconds": seconds_left}))


def check_chain(callers: Sequence[str], target: str) -> None:
    """Raise AskedInCircle or AskedTooDeep if the target must not be asked by these callers."""
    if target in callers:
        chain = " -> ".join((*callers, target))
        raise AskedInCircle(f"{target!r} has caused this work or is you: {chain}; do it yourself, or ask another agent")
    if len(callers) > MAX_CALLERS:
        chain = " -> ".join(callers)
        raise AskedTooDeep(f"{MAX_CALLERS} agents have asked each other already: {chain}; do it yourself")


def record_request(connection: Connection, request_id: str, caller: str, callers: Sequence[str], now: int) -> None:
    """Store who asks, before the work is submitted. Nothing changes if it is known. Raises TooMany."""
    table = agent_requests
    if connection.execute(select(table.c.caller).where(table.c.request_id == request_id)).first() is not None:
        return
    admitted = work.c.request_id.is_not(None) | (table.c.created_at > now - _ADMISSION_MS)
    joined = table.outerjoin(work, work.c.request_id == table.c.request_id)
    mine = (table.c.caller == caller) & work.c.finished_at.is_(None) & admitted
    count = connection.execute(select(func.count()).select_from(joined).where(mine)).scalar() or 0
    if count >= MOST_OPEN:
        raise TooMany(
            f"{count} requests of yours to other agents are not over; wait for some", code="too_many_requests"
        )
    row = {"request_id": request_id, "caller": caller, "callers": json.dumps(callers), "created_at": now}
    connection.execute(insert(table).values(row))


def read_callers(connection: Connection, request_id: str) -> tuple[str, ...]:
    """Return the callers of work; none if no agent has asked for it."""
    query = select(agent_requests.c.callers).where(agent_requests.c.request_id == request_id)
    found = connection.execute(query).scalar()
    return tuple(json.loads(found)) if found is not None else ()  # noqa: TID251  our own row
