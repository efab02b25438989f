"""Who asks for what: the chain of callers and the authority that travel with the work, and only narrow.

An agent that asks while it does work of the host asks in the name of that work: for its user, within its scope and its
limits. Otherwise it asks for itself.
"""

from __future__ import annotations

import json
import math
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
class CallChain:
    """Who has given whom one piece of work."""

    callers: tuple[str, ...] = ()
    """The first one first, without the operator."""
    waiting: int = 0
    """How many of the last ones wait for its end. Those before them have handed work off, or wait for less."""

    def with_caller(self, name: str, waits: bool) -> CallChain:
        """Return the chain of work that the one who does this work gives to another."""
        return CallChain((*self.callers, name), self.waiting + 1 if waits else 0)


@dataclass(frozen=True, slots=True)
class Lineage:
    """What travels with the work."""

    chain: CallChain
    """Its last caller is who asks now."""
    principal: Principal
    bounds: WorkBounds


@dataclass(frozen=True, slots=True)
class WorkOnHand:
    """What a caller does while it asks, as it says. It may say anything, so this finds work of its own and no more."""

    task: str | None
    """The task; None: none."""
    user: str | None
    """For whom it does it; None: not said."""

    def is_of(self, user: str | None) -> bool:
        """Whether it may be work of this user: tasks of two users may have the same id."""
        return self.user in (None, user)


def lineage_of(
    member: TeamMember,
    parent: WorkRequest | None,
    before: CallChain,
    seconds: float,
    *,
    waits: bool,
    elapsed: float = 0.0,
) -> Lineage:
    """Return the lineage of new work. `parent`: the work that the caller does; `before`: its chain; `elapsed`: the
    seconds of its time that are gone; `waits`: whether the caller waits for the end of the new work."""
    chain = before if member.is_operator else before.with_caller(member.name, waits)
    longest = math.ceil(seconds)
    if parent is None:
        principal = Principal(
            name="operator" if member.is_operator else f"agent:{member.name}",
            kind="user" if member.is_operator else "agent",
            verified=True,
            verified_by="operator-token" if member.is_operator else "agent-token",
        )
        return Lineage(chain, principal, WorkBounds(max_duration_seconds=longest))
    asked_by = f"{parent.principal.verified_by or 'host'}; asked by agent {member.name}"
    principal = parent.principal.model_copy(update={"verified_by": cut(asked_by, 500)})
    limits = parent.bounds or WorkBounds()
    most = limits.max_duration_seconds
    seconds_left = longest if most is None else min(longest, max(1, math.ceil(most - elapsed)))
    return Lineage(chain, principal, limits.model_copy(update={"max_duration_seconds": seconds_left}))


def check_chain(chain: CallChain, target: str, *, waits: bool) -> None:
    """Raise AskedInCircle or AskedTooDeep if these callers must not give the target work. Who has handed the work off
    may be asked about it, for it waits for nothing; but work is not handed back."""
    callers = chain.callers
    refused = callers[len(callers) - chain.waiting :] if waits else callers
    if target in refused:
        shown = " -> ".join((*callers, target))
        raise AskedInCircle(f"{target!r} has caused this work or is you: {shown}; do it yourself, or ask another agent")
    if len(callers) > MAX_CALLERS:
        shown = " -> ".join(callers)
        raise AskedTooDeep(f"{MAX_CALLERS} agents have asked each other already: {shown}; do it yourself")


def record_request(connection: Connection, request_id: str, caller: str, chain: CallChain, now: int) -> None:
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
    row = {"request_id": request_id, "caller": caller, "created_at": now}
    connection.execute(insert(table).values(**row, callers=json.dumps(chain.callers), waiting=chain.waiting))


def read_chain(connection: Connection, request_id: str) -> CallChain:
    """Return the chain of work; an empty one if no agent has asked for it."""
    query = select(agent_requests).where(agent_requests.c.request_id == request_id)
    found = connection.execute(query).first()
    if found is None:
        return CallChain()
    callers = tuple(json.loads(found.callers))  # noqa: TID251  our own row
    return CallChain(callers, len(callers) if found.waiting is None else found.waiting)


def read_seconds(connection: Connection, request_id: str) -> int | None:
    """Return the longest duration of work that is stored; None if it has none."""
    found = _read_request(connection, request_id)
    return found.bounds.max_duration_seconds if found is not None and found.bounds is not None else None


def read_user(connection: Connection, request_id: str) -> str | None:
    """Return whose work is stored; None if there is none."""
    found = _read_request(connection, request_id)
    return found.principal.name if found is not None else None


def _read_request(connection: Connection, request_id: str) -> WorkRequest | None:
    found = connection.execute(select(work.c.request).where(work.c.request_id == request_id)).scalar()
    return WorkRequest.model_validate_json(found) if found is not None else None
