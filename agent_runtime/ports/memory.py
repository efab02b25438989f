"""What an agent is told, learns, remembers and writes down."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from .tools import ToolContext, ToolResult


@dataclass(frozen=True, slots=True)
class Note:
    """A fact of the moment that the model is told below a user's message."""

    kind: str
    """One word: `time`, `warning`, `memory`."""
    text: str
    source: str = ""
    """Where text comes from that the runtime did not write itself: it is shown as data. Empty: its own words."""


@dataclass(frozen=True, slots=True)
class NoteContext:
    """A turn that starts, for those who may have something to note."""

    session_id: str
    principal: str
    agent: str
    model: str
    message_text: str
    """What the user's message says."""
    is_first_message: bool
    """Nothing was said in this session before, as far as the model sees it."""
    context_tokens: int
    """What the last model call of the session came to; 0: not known."""


class NoteProvider(Protocol):
    """Has something to say to the model when a turn starts: warnings, what is remembered."""

    async def notes(self, context: NoteContext) -> Sequence[Note]:
        """Whoever takes longer than the runner waits, or raises, is left out of this turn."""
        ...


@dataclass(frozen=True, slots=True)
class Correction:
    """What a person wants otherwise."""

    text: str
    source: Literal["person (message)", "person (rejected a call)", "agent", "agent (nobody was there)"]
    """Whose words these are; an agent's may come from anywhere."""
    principal: str
    session_id: str
    instead_of: str = ""
    where: str = ""
    """What it applies to; empty: everything."""
    answer_to: str = ""
    """What the person had before him."""


class Learnings(Protocol):
    """Keeps what went wrong, for sessions that begin later."""

    def observe(self, tool: str, arguments: Mapping[str, Any], result: ToolResult, context: ToolContext) -> None:
        """Notes a call that has failed in a way that can be avoided. Never waits and never fails."""
        ...

    def record_correction(self, correction: Correction) -> None:
        """Notes a correction. Never waits and never fails."""
        ...

    async def save_correction(self, correction: Correction) -> None:
        """Returns once the correction is on disk. Raises ToolFailure."""
        ...


@dataclass(frozen=True, slots=True)
class MemoryHit:
    """Something that memory holds: data, whatever it says."""

    text: str
    source: str
    """Such as `fact`, `file memory/2026-11-20.md`, `session ses_...`."""
    written_at: int
    """Epoch milliseconds of when it was written or last confirmed."""
    id: str = ""
    """Of a fact; empty: it cannot be forgotten by a call."""
    author: str = ""
    """Who wrote it down, or said it."""
    tags: tuple[str, ...] = ()


class Memory(Protocol):
    """What a principal's earlier sessions have left. Never anything of another principal's."""

    async def recall(self, query: str, *, principal: str, session_id: str, limit: int) -> Sequence[MemoryHit]:
        """Facts that are about what a message says, the best first; often none. Takes little time, never fails."""
        ...

    async def save_facts(self, texts: Sequence[str], *, principal: str, session_id: str) -> int:
        """Saves facts before a conversation is shortened; how many were new. On disk when it returns. Never fails."""
        ...


@dataclass(frozen=True, slots=True)
class DailyLogEntry:
    """A turn that has ended."""

    principal: str
    who: str
    """The task, or the session as people call it."""
    status: str
    asked: str
    """The beginning of the request, and of the answer; may be empty."""
    answered: str


class DailyLog(Protocol):
    """Keeps a log of what was done, day by day."""

    def append(self, entry: DailyLogEntry) -> None:
        """Never waits and never fails."""
        ...
