"""Who is at the other end of a link, and in whose names it may ask."""

from __future__ import annotations

from dataclasses import dataclass, field

from agent_common.protocol.hub import AccessDeniedError

from ..agents import Agent
from ..delivery import Endpoint
from ..parts import HubParts


@dataclass(slots=True)
class Caller:
    """The client of a link."""

    hub: HubParts
    endpoint: Endpoint
    identity: str | None
    """The one name that its agents may have; None: any."""
    is_operator: bool = False
    """Whether it may read everything as long as it has no agents."""
    agent_ids: set[str] = field(default_factory=set[str])
    """Agents that are registered over the link."""

    def agent(self, agent_id: str) -> Agent:
        """An agent of this link; an empty id is its only one. Raises AccessDeniedError if it is not."""
        if not agent_id and len(self.agent_ids) == 1:
            (agent_id,) = self.agent_ids
        if agent_id not in self.agent_ids:
            raise AccessDeniedError(f"agent_id: {agent_id or 'nobody'} is not registered over this link")
        return self.hub.agents.get(agent_id)

    @property
    def reads_all(self) -> bool:
        """Whether it reads in nobody's name."""
        return self.is_operator and not self.agent_ids

    def check_name(self, name: str) -> None:
        """Raise AccessDeniedError if no agent of this link may have that name."""
        if self.identity is not None and name != self.identity:
            raise AccessDeniedError(f"passport.name: this link is of {self.identity}, and cannot register {name}")
