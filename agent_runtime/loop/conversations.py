"""Sessions in memory: who speaks, with which prompt, and the view that the next turn extends."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

from ..context import View
from ..ports import Clock
from ..sessions import Ids, NewSession, SessionRow, history, is_session_id, unknown_session
from ..store import Database

MAIN = "main"
"""The alias under which a principal's default session is found."""
MOST_BYTES = 64 * 1024 * 1024
MOST_SESSIONS = 1024
SHRINK_EVERY = 32
"""Sessions that come into memory between two looks at how many there are: a look costs as much as all of them."""


@dataclass(slots=True, eq=False)
class Conversation:
    """One session. Its prompt and the order of its tools are fixed for life."""

    id: str
    principal: str
    agent: str
    model: str
    prompt: str
    digest: str
    tools: tuple[str, ...]
    aliases: tuple[str, ...] = ()
    stored: bool = False
    archived: bool = False
    blank: bool = False
    """Nothing was ever said in it."""
    view: View | None = None
    """None until a turn needs it, and again after a turn that did not end well: then it is read back from disk."""
    allowed: frozenset[str] = frozenset()
    """Tools that a person has allowed for the rest of the session."""
    users: int = 0
    """Turns that hold this conversation; it stays in memory while there are any."""
    context_tokens: int = 0
    found_as: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
    """Principal and name, for each name under which it is found in memory."""
    _last_ms: int = field(default=0)

    def stamp(self, now_ms: int) -> int:
        """A time for the next row: never earlier than the one before, whatever the clock does."""
        self._last_ms = max(self._last_ms, now_ms)
        return self._last_ms

    def new_row(self, workspace: str) -> NewSession:
        return NewSession(
            self.id,
            self.principal,
            self.agent,
            workspace,
            self.model,
            self.prompt,
            self.digest,
            self.tools,
            self.aliases,
        )


Draft = Callable[[str], tuple[str, str, tuple[str, ...]]]
"""Model -> prompt, digest and tool order of a session that begins now."""


class Conversations:
    """Finds and keeps sessions. What is not in use may be forgotten at any time: the database has it."""

    def __init__(self, database: Database, ids: Ids, clock: Clock, model: str, draft: Draft) -> None:
        self._database, self._ids, self._clock = database, ids, clock
        self._model, self._draft = model, draft
        self._known: OrderedDict[str, Conversation] = OrderedDict()
        self._aliases: dict[tuple[str, str], str] = {}
        self._came = 0
        self._lock = asyncio.Lock()

    async def find(self, principal: str, name: str | None) -> Conversation:
        """The session of that id or alias; an unknown alias begins a session, an unknown id is NotFound."""
        name = name or MAIN
        known = self._known.get(self._aliases.get((principal, name), name))
        if known is None:
            async with self._lock:  # two first messages of one session must not begin two
                known = await self._load(principal, name) or self._begin(principal, name)
        if known.principal != principal:
            raise unknown_session(name)
        self._known.move_to_end(known.id)
        return known

    async def get(self, principal: str, name: str | None) -> Conversation | None:
        """As `find`, but begins nothing."""
        name = name or MAIN
        known = self._known.get(self._aliases.get((principal, name), name))
        if known is None:
            async with self._lock:
                known = await self._load(principal, name)
        return known if known is not None and known.principal == principal else None

    def begin(self, principal: str, *aliases: str) -> Conversation:
        """A session that begins now; it is stored with its first message."""
        prompt, digest, tools = self._draft(self._model)
        conversation = Conversation(
            self._ids.new("ses"), principal, "default", self._model, prompt, digest, tools, aliases
        )
        conversation.blank = True
        self._remember(conversation)
        return conversation

    def forget(self, conversation: Conversation) -> None:
        """An archived session is found by its id only."""
        conversation.archived = True
        self._unname(conversation)

    def release(self, conversation: Conversation) -> None:
        """Forgets a session that never came to be, because its first message was refused."""
        if not conversation.stored and conversation.users == 0 and conversation.id in self._known:
            self._drop(conversation.id)

    def _begin(self, principal: str, name: str) -> Conversation:
        if is_session_id(name):
            raise unknown_session(name)
        return self.begin(principal, name)

    async def _load(self, principal: str, name: str) -> Conversation | None:
        known = self._known.get(self._aliases.get((principal, name), name))
        if known is not None:
            return known
        row = await self._database.read(
            lambda connection: history.session(connection, history.alias(connection, principal, name) or name)
        )
        if row is None or row.principal != principal:
            return None
        conversation = self._known.get(row.id) or self._restore(row)
        if name != row.id and not conversation.archived:
            self._name(conversation, name)
        return conversation

    def _restore(self, row: SessionRow) -> Conversation:
        conversation = Conversation(row.id, row.principal, row.agent, row.model, row.prompt, row.digest, row.tools)
        conversation.stored, conversation.archived, conversation.allowed = True, row.archived, row.allowed
        conversation.stamp(row.last_ms + 1)  # the clock may have gone back since, and new ids with it
        self._remember(conversation)
        return conversation

    def _remember(self, conversation: Conversation) -> None:
        self._known[conversation.id] = conversation
        for alias in conversation.aliases:
            self._name(conversation, alias)
        self._came += 1
        if self._came % SHRINK_EVERY == 0:
            self._shrink()

    def _name(self, conversation: Conversation, name: str) -> None:
        key = (conversation.principal, name)
        self._aliases[key] = conversation.id
        conversation.found_as.add(key)

    def _unname(self, conversation: Conversation) -> None:
        for key in conversation.found_as:
            if self._aliases.get(key) == conversation.id:
                del self._aliases[key]
        conversation.found_as.clear()

    def _shrink(self) -> None:
        """Forgets the sessions that were not used for longest until the rest fits."""
        size = sum(known.view.size for known in self._known.values() if known.view)
        for session_id, known in list(self._known.items())[:-1]:
            if len(self._known) <= MOST_SESSIONS and size <= MOST_BYTES:
                return
            if known.users == 0 and known.stored:
                size -= known.view.size if known.view else 0
                self._drop(session_id)

    def _drop(self, session_id: str) -> None:
        self._unname(self._known.pop(session_id))
