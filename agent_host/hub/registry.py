"""Who is registered: names, passports, resumes, rules, and where each is connected."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial

import structlog

from agent_common.backoff import Backoff
from agent_common.clock import Clock
from agent_common.owned_tasks import OwnedTasks
from agent_common.protocol.hub import (
    HUB_ID,
    AgentKind,
    HubUnavailable,
    Passport,
    ProtocolError,
    Resume,
    Rule,
)

from .agents import Agent, Agents, new_agent_id
from .audit import HubAudit
from .delivery import Delivery, Endpoint
from .leases import Leases, connected_elsewhere
from .limits import HubLimits
from .sessions import Lifecycle, SessionTable
from .store import (
    AgentRemoval,
    AgentRow,
    Conflict,
    HubStore,
    Row,
    Sharing,
    TasksEnd,
    submit_and_wait,
)

log = structlog.get_logger(__name__)
_AGAIN = Backoff(1.0, 60.0)
"""Pauses before sessions that could not be read are read again."""


def _every(_agent: Agent) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class AgentQuery:
    """Which agents to list."""

    capability: str | None = None
    """Only those that claim it."""
    text: str | None = None
    """Only those whose name or summary has this text."""
    kind: AgentKind | None = None
    after: str = ""
    """Begin after this name."""
    limit: int = 50
    is_visible: Callable[[Agent], bool] = _every


class Registry:
    """Registers agents and finds them."""

    def __init__(
        self,
        *,
        store: HubStore,
        clock: Clock,
        limits: HubLimits,
        agents: Agents,
        delivery: Delivery,
        table: SessionTable,
        lifecycle: Lifecycle,
        audit: HubAudit,
        tasks: OwnedTasks,
        leases: Leases,
        sharing: Sharing | None,
    ) -> None:
        """`sharing`: if other hubs have the same store."""
        self._store = store
        self._clock = clock
        self._limits = limits
        self._sharing = sharing
        self._agents = agents
        self._delivery = delivery
        self._leases = leases
        self._table = table
        self._lifecycle = lifecycle
        self._audit = audit
        self._tasks = tasks
        self._leaving: set[str] = set()
        """Ids of agents that are being removed from the database: what is written of them now would stay there."""

    async def register(
        self,
        passport: Passport,
        resume: Resume,
        rule: Rule,
        endpoint: Endpoint,
        *,
        supersede: bool = False,
        key: str = "",
    ) -> Agent:
        """Register an agent, or resume it under the id that its name has, and deliver to it over a link.

        `supersede`, or the `key` of its last registration: an older link of it ends; else a name that is connected is
        refused. Returns once it is durable."""
        if passport.name == HUB_ID:
            raise ProtocolError(f"passport.name: {HUB_ID} is the hub itself; choose another")
        agent = await self.find(passport.name)
        if agent is None and (agent := await self._register_new(passport, resume, rule)) is not None:
            await self._leases.take(agent, key, supersede=supersede)
            self._audit.record("agent_registered", agent_id=agent.agent_id, name=agent.name)
        else:
            agent = agent or await self._registered_elsewhere(passport.name)
            connected = self._delivery.endpoint(agent)
            proven = supersede or agent.has_key(key)
            if connected is not None and connected is not endpoint and not proven:
                raise connected_elsewhere(agent)
            await self._leases.take(agent, key, supersede=supersede)
            agent.passport = passport
            agent.resume = resume
            await self.set_rule(agent, rule)
            self._audit.record("agent_resumed", agent_id=agent.agent_id, name=agent.name)
        agent.key = key
        self._delivery.attach(agent, endpoint)
        self._tasks.start(self._deliver_sessions(agent, endpoint))
        return agent

    async def _register_new(self, passport: Passport, resume: Resume, rule: Rule) -> Agent | None:
        """Store a new agent. Returns None if another hub has just registered the name. Raises HubUnavailable."""
        agent = self._add(passport, resume, rule)
        try:
            # If its link breaks meanwhile, it is registered all the same: what becomes of the row decides.
            await self._write(agent.to_row(), on_refused=partial(self._agents.remove, agent))
        except HubUnavailable as error:
            if isinstance(error.__cause__, Conflict):
                return None
            raise
        return agent

    async def _registered_elsewhere(self, name: str) -> Agent:
        agent = await self.find(name)
        if agent is None:
            raise HubUnavailable("the hub cannot store this now", retry_after=1.0)
        return agent

    async def find(self, name_or_id: str) -> Agent | None:
        """The agent of that id or name, also one that another hub has just registered."""
        agent = self._agents.find(name_or_id)
        if agent is None and self._sharing is not None:
            row = await self._sharing.agent(name_or_id)
            agent = self._agents.find(name_or_id) or (self._know(row) if row is not None else None)
        return agent

    async def refresh(self, agent_id: str) -> None:
        """Read an agent again that another hub has written."""
        assert self._sharing is not None  # noqa: S101
        row = await self._sharing.agent(agent_id)
        if row is not None:
            self._know(row)
            return
        agent = self._agents.find(agent_id)
        if agent is not None:
            endpoint = self._delivery.endpoint(agent)
            self._delivery.detach(agent)
            if endpoint is not None:
                endpoint.release(agent_id)
            self._delivery.inboxes.forget(agent)
            self._agents.remove(agent)

    def _know(self, row: AgentRow) -> Agent:
        """The agent of a row that another hub has written."""
        agent = self._agents.find(row.agent_id)
        if agent is None:
            agent = Agent(row, self._clock)
            agent.fence = 0
            self._agents.add(agent)
        else:
            agent.take_over(row, self._clock)
        return agent

    async def know(self, agent_ids: Collection[str]) -> None:
        """Read agents that another hub has registered."""
        for agent_id in agent_ids:
            await self.find(agent_id)

    def _add(self, passport: Passport, resume: Resume, rule: Rule) -> Agent:
        row = AgentRow(
            agent_id=new_agent_id(passport.name),
            name=passport.name,
            passport=passport.model_dump_json(),
            resume=resume.model_dump_json(),
            rule=rule.model_dump_json(),
            registered_at=self._clock.now_ms(),
        )
        agent = Agent(row, self._clock)
        agent.fence = None if self._sharing is None else 0
        self._agents.add(agent)
        return agent

    async def _load_sessions(self, agent: Agent) -> bool:
        """Have the sessions in memory in which something may be left for an agent. Returns False if another attempt may
        find more."""
        self._delivery.inboxes.save_all()
        await self._store.flush()
        return all([await self._table.try_to_load(one) for one in await self._store.undelivered(agent.agent_id)])

    async def _deliver_sessions(self, agent: Agent, endpoint: Endpoint) -> None:
        """Load them for an agent that is connected now, all that can be read, before its link ends."""
        for attempt in itertools.count(1):
            if self._delivery.endpoint(agent) is not endpoint:
                return
            try:
                if await self._load_sessions(agent):
                    return
            except Exception as error:  # noqa: BLE001
                log.error("hub_sessions_unreadable", agent=agent.name, why=str(error))
            await asyncio.sleep(_AGAIN.pause(attempt))

    async def load(self) -> None:
        """Read the agents, at the start, and the inboxes of those that have a bound."""
        for row in await self._store.agents():
            if self._sharing is not None:
                self._know(row)
            else:
                self._agents.add(Agent(row, self._clock))
        for agent_id in await self._sharing.held_elsewhere() if self._sharing is not None else ():
            if (agent := self._agents.find(agent_id)) is not None and not agent.fence:
                agent.is_elsewhere = True
        for agent in tuple(self._agents):
            if agent.rule.inbox.max_pending is not None:
                await self._load_sessions(agent)
                await self._delivery.inboxes.recount(agent, self._limits.page)

    async def unregister(self, agent: Agent) -> None:
        """Forget an agent. It leaves its sessions."""
        endpoint = self._delivery.endpoint(agent)
        self._delivery.detach(agent)
        self._delivery.inboxes.save_all()
        await self._store.flush()
        tasks = TasksEnd("its agent was unregistered", self._clock.now_ms(), owner_id=agent.agent_id)
        try:
            await asyncio.gather(*[self._leave(agent, one) for one in await self._store.undelivered(agent.agent_id)])
            self._leaving.add(agent.agent_id)
            await self._write(
                AgentRemoval(agent.agent_id),
                tasks,
                on_stored=partial(self._forget, agent, endpoint),
                on_refused=partial(self._leaving.discard, agent.agent_id),
            )
        except Exception:
            if endpoint is not None and self._delivery.endpoint(agent) is None:
                self._delivery.attach(agent, endpoint)  # it stays
            raise

    def _forget(self, agent: Agent, endpoint: Endpoint | None) -> None:
        """An agent is not in the database any more. `endpoint`: where it was connected when it began to leave."""
        endpoint = self._delivery.endpoint(agent) or endpoint
        self._leaving.discard(agent.agent_id)
        self._delivery.inboxes.forget(agent)
        self._agents.remove(agent)
        if endpoint is not None:
            endpoint.release(agent.agent_id)
        self._audit.record("agent_unregistered", agent_id=agent.agent_id, name=agent.name)

    async def _leave(self, agent: Agent, session_id: str) -> None:
        if await self._table.try_to_load(session_id):
            session = self._table.live.get(session_id)
            if session is not None:
                await self._lifecycle.leave(agent, session)
        else:
            raise HubUnavailable(f"the session {session_id} cannot be read now", retry_after=1.0)

    async def set_rule(self, agent: Agent, rule: Rule) -> None:
        """Change an agent's rule."""
        was_bounded = agent.rule.inbox.max_pending is not None
        agent.set_rule(rule, self._clock)
        if rule.inbox.max_pending is not None and not was_bounded:
            await self._load_sessions(agent)
            await self._delivery.inboxes.recount(agent, self._limits.page)
        await self._write_again(agent)
        self._audit.record("rule_set", agent_id=agent.agent_id)

    async def set_resume(self, agent: Agent, resume: Resume) -> None:
        """Change an agent's resume."""
        agent.resume = resume
        await self._write_again(agent)
        self._audit.record("resume_set", agent_id=agent.agent_id)

    def disconnect(self, agent: Agent, endpoint: Endpoint) -> None:
        """The link of an agent has ended, unless it is connected over another one meanwhile."""
        if self._delivery.endpoint(agent) is endpoint:
            self._delivery.detach(agent)
            self._leases.end(agent)

    def list(self, query: AgentQuery) -> Sequence[Agent]:
        """Agents by name, a page at a time."""
        found = sorted((one for one in self._agents if one.name > query.after and _fits(one, query)), key=_name)
        return found[: query.limit]

    def get(self, name_or_id: str) -> Agent:
        """The agent of that id or name. Raises NotFoundError."""
        return self._agents.get(name_or_id)

    async def _write_again(self, agent: Agent) -> None:
        """Write an agent that is registered. Raises HubUnavailable, also if it is being removed."""
        if agent.agent_id in self._leaving:
            raise HubUnavailable(f"{agent.name} is being unregistered", retry_after=1.0)
        await self._write(agent.to_row())

    async def _write(
        self,
        *rows: Row,
        on_stored: Callable[[], None] | None = None,
        on_refused: Callable[[], None] | None = None,
    ) -> None:
        """Write rows, and return once they are durable. Raises HubUnavailable. The calls are as of submit_and_wait."""
        try:
            await submit_and_wait(self._store, *rows, on_stored=on_stored, on_refused=on_refused)
        except Exception as error:
            raise HubUnavailable(f"the hub cannot store this: {error}", retry_after=1.0) from error


def _fits(agent: Agent, query: AgentQuery) -> bool:
    resume = agent.resume
    if not query.is_visible(agent):
        return False
    if query.kind is not None and agent.passport.kind != query.kind:
        return False
    if query.capability is not None and query.capability not in resume.claimed_capabilities:
        return False
    return query.text is None or query.text.lower() in f"{agent.name}\n{resume.summary}".lower()


def _name(agent: Agent) -> str:
    return agent.name
