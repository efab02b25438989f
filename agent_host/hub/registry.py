"""Who is registered: names, passports, resumes, rules, and where each is connected."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import structlog

from agent_common.clock import Clock
from agent_common.protocol.hub import (
    HUB_ID,
    AgentKind,
    HubUnavailable,
    NetworkError,
    Passport,
    ProtocolError,
    Resume,
    Rule,
)

from .agents import Agent, Agents, new_agent_id
from .audit import HubAudit
from .delivery import Delivery, Endpoint
from .limits import HubLimits
from .sessions import Lifecycle, SessionTable
from .store import AgentRemoval, AgentRow, HubStore, Row, Submission
from .tasks import OwnedTasks

log = structlog.get_logger(__name__)


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
    ) -> None:
        self._store, self._clock, self._limits = store, clock, limits
        self._agents, self._delivery = agents, delivery
        self._table, self._lifecycle, self._audit, self._tasks = table, lifecycle, audit, tasks

    async def register(
        self, passport: Passport, resume: Resume, rule: Rule, endpoint: Endpoint, *, supersede: bool = False
    ) -> Agent:
        """Register an agent, or resume it under the id that its name has, and deliver to it over a link.

        `supersede`: an older link of it ends; else a name that is connected is refused. Returns once it is durable."""
        if passport.name == HUB_ID:
            raise ProtocolError(f"passport.name: {HUB_ID} is the hub itself; choose another")
        agent = self._agents.find(passport.name)
        if agent is None:
            agent = self._add(passport, resume, rule)
            await self._write_new(agent)
            self._audit.record("agent_registered", agent_id=agent.agent_id, name=agent.name)
        else:
            connected = self._delivery.endpoint(agent)
            if connected is not None and connected is not endpoint and not supersede:
                raise ProtocolError(f"passport.name: {passport.name} is registered and connected; choose another")
            agent.passport, agent.resume = passport, resume
            await self.set_rule(agent, rule)
            self._audit.record("agent_resumed", agent_id=agent.agent_id, name=agent.name)
        self._delivery.attach(agent, endpoint)
        self._tasks.start(self._load_sessions(agent))
        return agent

    async def _write_new(self, agent: Agent) -> None:
        """Store a new agent, or forget it. Raises HubUnavailable."""
        try:
            await self._write(agent.to_row())
        except BaseException:
            self._agents.remove(agent)
            raise

    def _add(self, passport: Passport, resume: Resume, rule: Rule) -> Agent:
        row = AgentRow(
            agent_id=new_agent_id(),
            name=passport.name,
            passport=passport.model_dump_json(),
            resume=resume.model_dump_json(),
            rule=rule.model_dump_json(),
            registered_at=self._clock.now_ms(),
        )
        agent = Agent(row, self._clock)
        self._agents.add(agent)
        return agent

    async def _load_sessions(self, agent: Agent) -> None:
        """Have the sessions in memory in which something may be left for an agent."""
        self._delivery.inboxes.save_all()
        await self._store.flush()
        for session_id in await self._store.undelivered(agent.agent_id):
            if session_id not in self._table.live:
                try:
                    await self._table.get(session_id)
                except NetworkError as error:  # the others must be loaded
                    log.error("hub_session_unreadable", session=session_id, why=error.message)

    async def load(self) -> None:
        """Read the agents, at the start, and the inboxes of those that have a bound."""
        for row in await self._store.agents():
            self._agents.add(Agent(row, self._clock))
        for agent in tuple(self._agents):
            if agent.rule.inbox.max_pending is not None:
                await self._load_sessions(agent)
                await self._delivery.inboxes.recount(agent, self._limits.page)

    async def unregister(self, agent: Agent) -> None:
        """Forget an agent. It leaves its sessions."""
        self._delivery.detach(agent)
        self._delivery.inboxes.save_all()
        await self._store.flush()
        for session_id in await self._store.undelivered(agent.agent_id):
            session = await self._table.get(session_id)
            self._lifecycle.leave(agent, session)
        self._delivery.inboxes.forget(agent)
        self._agents.remove(agent)
        await self._write(AgentRemoval(agent.agent_id))
        self._audit.record("agent_unregistered", agent_id=agent.agent_id, name=agent.name)

    async def set_rule(self, agent: Agent, rule: Rule) -> None:
        """Change an agent's rule."""
        was_bounded = agent.rule.inbox.max_pending is not None
        agent.set_rule(rule, self._clock)
        if rule.inbox.max_pending is not None and not was_bounded:
            await self._load_sessions(agent)
            await self._delivery.inboxes.recount(agent, self._limits.page)
        await self._write(agent.to_row())
        self._audit.record("rule_set", agent_id=agent.agent_id)

    async def set_resume(self, agent: Agent, resume: Resume) -> None:
        """Change an agent's resume."""
        agent.resume = resume
        await self._write(agent.to_row())
        self._audit.record("resume_set", agent_id=agent.agent_id)

    def disconnect(self, agent: Agent, endpoint: Endpoint) -> None:
        """The link of an agent has ended, unless it is connected over another one meanwhile."""
        if self._delivery.endpoint(agent) is endpoint:
            self._delivery.detach(agent)

    def list(self, query: AgentQuery) -> Sequence[Agent]:
        """Agents by name, a page at a time."""
        found = sorted((one for one in self._agents if one.name > query.after and _fits(one, query)), key=_name)
        return found[: query.limit]

    def get(self, name_or_id: str) -> Agent:
        """The agent of that id or name. Raises NotFoundError."""
        return self._agents.get(name_or_id)

    async def _write(self, row: Row) -> None:
        """Write a row, and return once it is durable. Raises HubUnavailable."""
        written: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()

        def on_written(error: Exception | None) -> None:
            if not written.done():
                written.set_result(error)

        self._store.submit(Submission((row,), on_written))
        error = await written
        if error is not None:
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
