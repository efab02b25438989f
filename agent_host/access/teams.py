"""Which team an agent belongs to: that of its workspace."""

from __future__ import annotations

from sqlalchemy import func, select

from agent_common.clock import Clock

from ..database import HostDatabase, workspaces

DEFAULT_TEAM = "default"
"""The team of a new workspace, and of an agent that has none."""
TRUST_SECONDS = 5.0
"""How long an answer is kept, because every model call asks."""
_MOST_KEPT = 10_000


class Teams:
    """Looks teams up. A change that another process makes counts at most `TRUST_SECONDS` later."""

    def __init__(self, database: HostDatabase, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self._known: dict[str, tuple[str, float]] = {}
        self._changes = 0

    async def team_of(self, agent_id: str) -> str:
        """Return the agent's team."""
        known = self._known.get(agent_id)
        now = self._clock.monotonic()
        if known is not None and known[1] > now:
            return known[0]
        query = select(workspaces.c.team).where(workspaces.c.id == agent_id)
        seen = -1
        found: str | None = None
        while seen != self._changes:  # read again if a team has changed meanwhile
            seen = self._changes
            found = await self._database.run(lambda connection: connection.execute(query).scalar())
        if len(self._known) >= _MOST_KEPT:
            self._known.clear()
        team = found or DEFAULT_TEAM
        self._known[agent_id] = team, now + TRUST_SECONDS
        return team

    def forget(self, agent_id: str) -> None:
        """Look the agent's team up anew: its workspace is new or gone, or has another team. Call it once that is
        committed."""
        self._changes += 1
        self._known.pop(agent_id, None)

    async def strangers(self, agent_id: str) -> frozenset[str]:
        """Return the ids of all workspaces of other teams than the agent's, as they are now."""
        own = select(workspaces.c.team).where(workspaces.c.id == agent_id).scalar_subquery()
        query = select(workspaces.c.id).where(workspaces.c.team != func.coalesce(own, DEFAULT_TEAM))
        return await self._database.run(lambda connection: frozenset(connection.execute(query).scalars()))
