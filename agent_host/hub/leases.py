"""Which of the hubs that share a database delivers to an agent. Without others it is always this one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from hashlib import sha256

from agent_common.clock import Clock
from agent_common.owned_tasks import OwnedTasks
from agent_common.protocol.hub import ProtocolError

from .agents import Agent, Agents
from .delivery import Delivery, Endpoint
from .limits import HubLimits
from .sessions import SessionTable
from .store import HubStore, LeaseEnd, Sharing, Submission

_LOOK_SECONDS = 0.25
_AGAIN_SECONDS = 1.0


class Leases:
    """Takes leases of agents, and gives them up."""

    def __init__(
        self,
        *,
        store: HubStore,
        clock: Clock,
        limits: HubLimits,
        agents: Agents,
        delivery: Delivery,
        table: SessionTable,
        tasks: OwnedTasks,
        sharing: Sharing | None,
    ) -> None:
        """`sharing`: if other hubs have the same store."""
        self._store = store
        self._clock = clock
        self._limits = limits
        self._sharing = sharing
        self._agents = agents
        self._delivery = delivery
        self._table = table
        self._tasks = tasks
        self._recounting: set[str] = set()
        self.on_leased: Callable[[], None] = _ignore
        """Called when this hub begins to deliver to an agent."""

    async def take(self, agent: Agent, key: str, *, supersede: bool) -> None:
        """Be the hub that delivers to an agent. Raises ProtocolError if it is connected to another one."""
        if self._sharing is None:
            return
        self._delivery.inboxes.save_all()
        await self._store.flush()
        hashed = sha256(key.encode()).hexdigest() if key else ""
        lease = await self._sharing.take(agent.agent_id, hashed, supersede=supersede)
        seen = lease.renewed_to
        deadline = self._clock.monotonic() + self._limits.lease_seconds * 2
        while not lease.fence:  # the other hub may have died: wait until it gives a sign of life, or its time is over
            if lease.renewed_to != seen or self._clock.monotonic() > deadline:
                raise connected_elsewhere(agent)
            await asyncio.sleep(_LOOK_SECONDS)
            lease = await self._sharing.take(agent.agent_id, hashed, supersede=supersede)
        if lease.is_new or agent.fence != lease.fence:
            agent.fence = 0
            missing = self._table.replace_cursors(agent, await self._sharing.cursors(agent.agent_id))
            agent.opened.replace(await self._sharing.open_sizes(agent.agent_id))
            for session_id in missing:
                await self._table.try_to_load(session_id)
            if missing:  # one that was being read before may be as of then
                self._table.replace_cursors(agent, await self._sharing.cursors(agent.agent_id))
            self.on_leased()
            agent.fence = lease.fence
            agent.is_elsewhere = False
            if agent.rule.inbox.max_pending is not None:
                await self._delivery.inboxes.recount(agent, self._limits.page)
                self._delivery.inboxes.trim(self._delivery.inboxes.of(agent))

    def moved(self, agent_id: str, fence: int, *, is_held: bool) -> None:
        """Another hub has taken the lease of an agent, or ended it."""
        agent = self._agents.find(agent_id)
        if agent is None or (agent.fence and fence < agent.fence):
            return
        agent.is_elsewhere = is_held
        if not agent.fence:
            return
        endpoint = self._delivery.endpoint(agent)
        key = agent.key
        self._delivery.detach(agent)
        agent.fence = 0
        agent.key = ""
        if endpoint is not None and is_held:
            endpoint.release(agent_id)
        elif endpoint is not None:  # this hub gave no sign of life for a while, and nobody has come for the agent
            self._tasks.start(self._take_back(agent, endpoint, key))

    async def _take_back(self, agent: Agent, endpoint: Endpoint, key: str) -> None:
        try:
            await self.take(agent, key, supersede=False)
        except ProtocolError:
            endpoint.release(agent.agent_id)
            return
        if self._delivery.endpoint(agent) is None:  # else it has come back by itself
            agent.key = key
            self._delivery.attach(agent, endpoint)

    def end(self, agent: Agent) -> None:
        """Let another hub deliver to an agent, whose link has ended."""
        if agent.fence:
            self._delivery.inboxes.save_all()
            row = LeaseEnd(agent.agent_id, agent.fence)
            agent.fence = 0
            self._write_end(agent, row)

    def _write_end(self, agent: Agent, row: LeaseEnd) -> None:
        """Write it again until it is written, unless this hub delivers to the agent again."""

        def on_written(error: Exception | None) -> None:
            if error is not None:
                self._clock.call_later(_AGAIN_SECONDS, partial(self._write_end, agent, row))

        if not agent.is_held:
            self._store.submit(Submission((row,), on_written))

    def recount(self, agent: Agent) -> None:
        """Count the inbox of an agent to which another hub delivers."""
        if agent.agent_id not in self._recounting:
            self._recounting.add(agent.agent_id)
            self._tasks.start(self._count_elsewhere(agent))

    async def _count_elsewhere(self, agent: Agent) -> None:
        assert self._sharing is not None  # noqa: S101
        try:
            rows = await self._sharing.cursors(agent.agent_id)
            if not agent.is_held:
                self._table.replace_cursors(agent, rows)
                await self._delivery.inboxes.recount(agent, self._limits.page)
        finally:
            self._recounting.discard(agent.agent_id)


def connected_elsewhere(agent: Agent) -> ProtocolError:
    """The error of who registers a name that is in use."""
    return ProtocolError(f"passport.name: {agent.name} is registered and connected; choose another")


def _ignore() -> None:
    return
