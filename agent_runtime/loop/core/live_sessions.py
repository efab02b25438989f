"""Sessions in memory, each with its principal, its prompt and the view that its next turn extends."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from agent_common.protocol import Rule

from ...agents import DEFAULT, AgentDirectory, Manifest
from ...context import CompactionHistory, ContextUsage, TokenCalibration, View
from ...errors import InvalidRequest
from ...ports import HUB_PRINCIPAL, OutsideText
from ...sessions import (
    AgentPrompt,
    Ids,
    NewSession,
    SessionRow,
    agent_prompts,
    history,
    is_session_id,
    unknown_session,
)
from ...store import Database
from .agent_rules import SharedRules

MAIN_ALIAS = "main"
"""The alias of a principal's default session."""
MAX_VIEW_BYTES = 64 * 1024 * 1024
MAX_SESSIONS = 1024


@dataclass(slots=True, eq=False)
class LiveSession:
    """One session. Its prompt and the order of its tools never change."""

    id: str
    principal: str
    agent: str
    model: str
    prompts: dict[str, AgentPrompt]
    """The prompts of the agents that have answered in it, the session's own among them."""
    aliases: tuple[str, ...] = ()
    stored: bool = False
    archived: bool = False
    empty: bool = False
    """No message was ever sent in it."""
    has_text: bool = False
    """It is known to have a user message with text."""
    view: View | None = None
    """None until a turn needs it, and after a turn that did not complete: it is then read from disk."""
    context_usage: ContextUsage = field(default_factory=lambda: ContextUsage(TokenCalibration("")))
    """The fill level of the model's window."""
    compaction_history: CompactionHistory = field(default_factory=CompactionHistory)
    """The results of earlier compactions."""
    rules: tuple[Rule, ...] = ()
    """Rules that a person has added for the rest of the session."""
    agent_rules: dict[str, SharedRules] = field(default_factory=dict[str, SharedRules])
    """By agent: the rules that its principal has added for all sessions with it. A turn reads them when it starts."""
    parent: tuple[str, str] | None = None
    """For a subagent's session: the id of the calling session and of its user message."""
    is_subagent: bool = False
    """Whether it is a subagent's session, in which no other agent or person may send messages."""
    use_count: int = 0
    """Number of turns and requests that use this session; it stays in memory while there are any."""
    outside_text: OutsideText = field(default_factory=OutsideText)
    """A subagent's session shares that of its caller, who reads its answer."""
    context_tokens: int = 0
    known_names: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
    """The pairs (principal, name) under which it is found in memory."""
    _last_ms: int = field(default=0)

    @property
    def own_prompt(self) -> AgentPrompt:
        """The prompt of the session's own agent."""
        return self.prompts[self.agent]

    def reorder(self, agent: str, tools: tuple[str, ...]) -> None:
        """Set the order in which that agent's tools are shown from now on."""
        if agent in self.prompts:
            self.prompts[agent] = replace(self.prompts[agent], tools=tools)

    def next_timestamp(self, now_ms: int) -> int:
        """Return a time for the next row: later than the one before, even if the clock goes back."""
        self._last_ms = max(self._last_ms + 1, now_ms)
        return self._last_ms

    def new_row(self, workspace: str) -> NewSession:
        own = self.own_prompt
        return NewSession(
            self.id,
            self.principal,
            self.agent,
            workspace,
            self.model,
            own.prompt,
            own.digest,
            own.tools,
            self.aliases,
            self.parent,
            own.packages,
        )


Draft = Callable[[Manifest, str], AgentPrompt]
"""Makes the prompt of an agent for a session of that principal."""


class LiveSessions:
    """Finds and keeps sessions. One that is not in use may be evicted at any time, as the database has it."""

    def __init__(self, database: Database, ids: Ids, agents: AgentDirectory, model: str, draft: Draft) -> None:
        self._database = database
        self._ids = ids
        self.agents = agents
        self._model = model
        self.draft = draft
        self._known: OrderedDict[str, LiveSession] = OrderedDict()
        self._aliases: dict[tuple[str, str], str] = {}
        self._lock = asyncio.Lock()

    async def find_or_create(self, principal: str, name: str | None, agent: str = DEFAULT) -> LiveSession:
        """Return the session of that id or alias, creating one with `agent` for an unknown alias. None: the alias
        `main`. Raises NotFound for an unknown id, and InvalidRequest if a new session needs an agent that people may
        not choose."""
        name = name or MAIN_ALIAS
        known = self._known.get(self._aliases.get((principal, name), name))
        if known is None:
            async with self._lock:  # two first messages must not create two sessions
                known = await self._load(principal, name) or self._create_named(principal, name, agent)
        if known.principal != principal:
            raise unknown_session(name)
        self._known.move_to_end(known.id)
        return known

    async def get(self, principal: str, name: str | None) -> LiveSession | None:
        """Return the session as `find_or_create` does, or None instead of creating one."""
        name = name or MAIN_ALIAS
        known = self._known.get(self._aliases.get((principal, name), name))
        if known is None:
            async with self._lock:
                known = await self._load(principal, name)
        return known if known is not None and known.principal == principal else None

    def create(
        self, principal: str, *aliases: str, agent: str = DEFAULT, parent: tuple[str, str] | None = None
    ) -> LiveSession:
        """Create a session in memory. It is stored with its first message."""
        manifest = self.agents.get(agent) or self.agents.require_selectable(DEFAULT)
        prompts = {manifest.name: self.draft(manifest, principal)}
        model = manifest.model or self._model
        session = LiveSession(self._ids.new("ses"), principal, manifest.name, model, prompts, aliases)
        session.outside_text.seen = principal == HUB_PRINCIPAL
        session.empty = True
        session.parent = parent
        session.is_subagent = parent is not None
        self._add(session)
        return session

    def add_agent(self, session: LiveSession, agent: str) -> Manifest:
        """Return the manifest of an agent that is to answer in a session, making its prompt on the first occasion.
        Raises InvalidRequest for an agent that people may not choose."""
        try:
            manifest = self.agents.require_selectable(agent)
        except InvalidRequest:
            if agent != session.agent or self.agents.get(agent) is not None:
                raise
            text = f"agent {agent} of this session no longer exists: name another one"
            raise InvalidRequest(text, faults=[("agent", text)]) from None
        if agent not in session.prompts:
            session.prompts[agent] = self.draft(manifest, session.principal)
        return manifest

    def max_steps(self, agent: str) -> int | None:
        """Return the step limit of the agent's manifest; None if there is none or the agent no longer exists."""
        manifest = self.agents.get(agent)
        return manifest.max_steps if manifest is not None else None

    def mark_archived(self, session: LiveSession) -> None:
        """Mark the session as archived: from now on it is found by its id only."""
        session.archived = True
        self._unmap_names(session)

    def discard_unstored(self, session: LiveSession) -> None:
        """Drop a session from memory if its first message was refused."""
        if not session.stored and session.use_count == 0 and session.id in self._known:
            self._drop(session.id)

    def ids_in_use(self) -> list[str]:
        """Return the ids of the sessions that a turn or a request uses."""
        return [known.id for known in self._known.values() if known.use_count]

    def evict(self, session_id: str) -> None:
        """Drop a session that is being deleted. One that is in use stays, but the database refuses new rows for it."""
        known = self._known.get(session_id)
        if known is not None and not known.use_count:
            self._drop(session_id)

    def _create_named(self, principal: str, name: str, agent: str) -> LiveSession:
        if is_session_id(name):
            raise unknown_session(name)
        return self.create(principal, name, agent=self.agents.require_selectable(agent).name)

    async def _load(self, principal: str, name: str) -> LiveSession | None:
        known = self._known.get(self._aliases.get((principal, name), name))
        if known is not None:
            return known
        row = await self._database.read(
            lambda connection: history.session(
                connection, history.session_of_alias(connection, principal, name) or name
            )
        )
        if row is None or row.principal != principal:
            return None
        session = self._known.get(row.id) or self._restore(await self._with_own_prompt(row))
        if name != row.id and not session.archived:
            self._map_name(session, name)
        return session

    async def _with_own_prompt(self, row: SessionRow) -> SessionRow:
        """Return the session; an imported one gets this agent's prompt, for good, in place of that of its export."""
        if not row.is_imported:
            return row
        manifest = self.agents.get(row.agent) or self.agents.require_selectable(DEFAULT)
        prompt = self.draft(manifest, row.principal)
        await self._database.write(lambda connection: agent_prompts.replace_imported(connection, row.id, prompt))
        return replace(
            row,
            prompt=prompt.prompt,
            digest=prompt.digest,
            tools=prompt.tools,
            packages=dict(prompt.packages),
            agent_prompts={},
        )

    def _restore(self, row: SessionRow) -> LiveSession:
        own = AgentPrompt(row.prompt, row.digest, row.tools, row.packages)
        prompts = {**row.agent_prompts, row.agent: own}
        session = LiveSession(row.id, row.principal, row.agent, row.model, prompts)
        session.stored = True
        session.archived = row.archived
        session.rules = row.rules
        session.is_subagent = row.is_subagent
        session.outside_text.seen = row.has_outside_text
        session.next_timestamp(row.last_ms + 1)  # the clock may have gone back since, and new ids with it
        self._add(session)
        return session

    def _add(self, session: LiveSession) -> None:
        self._known[session.id] = session
        for alias in session.aliases:
            self._map_name(session, alias)
        self._shrink()

    def _map_name(self, session: LiveSession, name: str) -> None:
        key = (session.principal, name)
        self._aliases[key] = session.id
        session.known_names.add(key)

    def _unmap_names(self, session: LiveSession) -> None:
        for key in session.known_names:
            if self._aliases.get(key) == session.id:
                del self._aliases[key]
        session.known_names.clear()

    def _shrink(self) -> None:
        """Drop the least recently used sessions until the rest fits."""
        size = sum(known.view.size for known in self._known.values() if known.view)
        for session_id, known in list(self._known.items())[:-1]:
            if len(self._known) <= MAX_SESSIONS and size <= MAX_VIEW_BYTES:
                return
            if known.use_count == 0 and known.stored:
                size -= known.view.size if known.view else 0
                self._drop(session_id)

    def _drop(self, session_id: str) -> None:
        self._unmap_names(self._known.pop(session_id))
