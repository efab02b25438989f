"""Interfaces for what an agent notes, learns, remembers and logs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from .tools import ToolContext, ToolResult


@dataclass(frozen=True, slots=True)
class Note:
    """A fact of the moment, shown to the model below a user's message."""

    kind: str
    """One word, such as `time`, `warning` or `memory`."""
    text: str
    source: str = ""
    """Origin of a text that the runtime did not write itself, which is shown as data. Empty: the runtime's own text."""


@dataclass(frozen=True, slots=True)
class NoteContext:
    """A turn that starts, as note providers see it."""

    session_id: str
    principal: str
    agent: str
    model: str
    message_text: str
    """The text of the user's message."""
    is_first_message: bool
    """Whether the model sees no earlier message of this session."""
    context_tokens: int
    """Tokens of the session's last model call; 0: unknown."""


class NoteProvider(Protocol):
    """Adds notes for the model when a turn starts, such as warnings and memories."""

    async def notes(self, context: NoteContext) -> Sequence[Note]:
        """Return the notes for a turn. A provider that takes too long, or raises, is left out of this turn."""
        ...


@dataclass(frozen=True, slots=True)
class Correction:
    """A correction by a person or an agent."""

    text: str
    source: Literal["person (message)", "person (rejected a call)", "agent", "agent (nobody was there)"]
    """The author; the words of an agent may originate anywhere."""
    principal: str
    session_id: str
    instead_of: str = ""
    where: str = ""
    """The subject that it applies to; empty: everything."""
    answer_to: str = ""
    """The answer or call that was corrected."""


class Learnings(Protocol):
    """Records mistakes for later sessions."""

    def observe(self, tool: str, arguments: Mapping[str, Any], result: ToolResult, context: ToolContext) -> None:
        """Record a call that failed in an avoidable way. Never waits and never fails."""
        ...

    def record_correction(self, correction: Correction) -> None:
        """Record a correction. Never waits and never fails."""
        ...

    async def save_correction(self, correction: Correction) -> None:
        """Record a correction and return once it is on disk. Raises ToolFailure."""
        ...


@dataclass(frozen=True, slots=True)
class MemoryHit:
    """An entry of memory, always treated as data."""

    text: str
    source: str
    """For example `fact`, `file memory/2026-11-20.md`, `session ses_...`."""
    written_at: int
    """When it was written or last confirmed, in epoch milliseconds."""
    id: str = ""
    """Id of a fact; empty for entries that no call can forget."""
    author: str = ""
    """The person or agent that wrote or said it."""
    tags: tuple[str, ...] = ()


class Memory(Protocol):
    """The memory of a principal's earlier sessions; never contains another principal's."""

    async def recall(self, query: str, *, principal: str, session_id: str, limit: int) -> Sequence[MemoryHit]:
        """Return facts related to the query, the best first; often none. Fast, and never fails."""
        ...

    async def save_facts(self, texts: Sequence[str], *, principal: str, session_id: str) -> int:
        """Save facts before a conversation is compacted; they are on disk on return. Returns the number of new ones.
        Never fails."""
        ...


@dataclass(frozen=True, slots=True)
class DailyLogEntry:
    """A turn that has ended, for the daily log."""

    principal: str
    who: str
    """The task, or the session by its alias or id."""
    status: str
    asked: str
    """The beginning of the request; `answered` is that of the answer. Both may be empty."""
    answered: str


class DailyLog(Protocol):
    """A log of turns by day."""

    def append(self, entry: DailyLogEntry) -> None:
        """Append an entry. Never waits and never fails."""
        ...
