"""Who is at the other end of a link, and in whose names it may ask."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass, field

from agent_common.protocol.hub import AccessDeniedError, NotFoundError

from ..agents import Agent
from ..delivery import Endpoint
from ..parts import HubParts

Reach = Callable[[str], bool]
"""Tells of the name of an agent whether it may be found and invited."""


async def reach_all() -> Reach:
    """Let a link find and invite all agents."""
    return lambda _name: True


@dataclass(frozen=True, slots=True)
class LinkRights:
    """What the client of a link may do. The defaults are those of a program that has the hub in its own process."""

    identity: str | None = None
    """The one name that its agents may have; None: any."""
    reads_all: bool = False
    """Whether it may read everything as long as it has no agents."""
    reach: Callable[[], Awaitable[Reach]] = reach_all
    """Returns what it may find and invite at the moment, besides its own agents. Raises HubUnavailable."""


@dataclass(slots=True)
class Caller:
    """The client of a link."""

    hub: HubParts
    endpoint: Endpoint
    rights: LinkRights
    agent_ids: set[str] = field(default_factory=set[str])
    """Agents that are registered over the link."""

    @property
    def reads_all(self) -> bool:
        """Whether it reads in nobody's name."""
        return self.rights.reads_all and not self.agent_ids

    def agent(self, agent_id: str) -> Agent:
        """An agent of this link; an empty id is its only one. Raises AccessDeniedError if it is not."""
        if not agent_id and len(self.agent_ids) == 1:
            (agent_id,) = self.agent_ids
        if agent_id not in self.agent_ids:
            raise AccessDeniedError(f"agent_id: {agent_id or 'nobody'} is not registered over this link")
        return self.hub.agents.get(agent_id)

    def readers(self, agent_id: str) -> Collection[str] | None:
        """In whose names it reads: that of one of its agents, else of all of them; None: an operator's. Raises
        AccessDeniedError."""
        if self.reads_all and not agent_id:
            return None
        if not agent_id and not self.agent_ids:
            raise AccessDeniedError("no agent is registered over this link")
        return [self.agent(agent_id).agent_id] if agent_id else self.agent_ids

    def find(self, name_or_id: str, is_visible: Callable[[Agent], bool]) -> Agent:
        """An agent that it may know of, as `visibility` says. Raises NotFoundError."""
        agent = self.hub.registry.get(name_or_id)
        if not is_visible(agent):
            raise NotFoundError(f"no agent {name_or_id} is registered")
        return agent

    async def visibility(self) -> Callable[[Agent], bool]:
        """What tells of an agent whether it may know of it now. Raises HubUnavailable."""
        reaches = await self.rights.reach()
        return lambda agent: agent.agent_id in self.agent_ids or reaches(agent.name)

    def check_name(self, name: str) -> None:
        """Raise AccessDeniedError if no agent of this link may have that name."""
        identity = self.rights.identity
        if identity is not None and name != identity:
            raise AccessDeniedError(f"passport.name: this link is of {identity}, and cannot register {name}")
