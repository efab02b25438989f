"""Memory between sessions: recalled when a session begins, saved before one is compacted."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from agent_common.clock import calendar_time

from ...ports import Memory, MemoryHit, Note, NoteContext

MAX_RECALLED = 5
MAX_SAVED_FACTS = 50
"""Maximum facts saved from one summary."""
_REMEMBER_SECTION = re.compile(r"^#+ *Remember *\n(.*?)(?=^#|\Z)", re.MULTILINE | re.DOTALL)
"""The section of a summary whose facts outlive the session."""


@dataclass(frozen=True, slots=True)
class MemoryNotes:
    """Implements ports.NoteProvider: recalls memories for the first message of a session."""

    memory: Memory

    async def notes(self, context: NoteContext) -> Sequence[Note]:
        if not context.is_first_message:
            return ()
        found = await self.memory.recall(
            context.message_text, principal=context.principal, session_id=context.session_id, limit=MAX_RECALLED
        )
        return [Note("memory", one.text, f"{one.source}, {calendar_time(one.written_at).date()}") for one in found]


class NullMemory:
    """Implements ports.Memory without remembering anything."""

    async def recall(self, query: str, *, principal: str, session_id: str, limit: int) -> Sequence[MemoryHit]:
        return ()

    async def save_facts(self, texts: Sequence[str], *, principal: str, session_id: str) -> int:
        return 0


def durable_facts(summary: str) -> list[str]:
    """Return the facts that a summary asks to remember, one per line."""
    section = _REMEMBER_SECTION.search(summary)
    lines = section[1].splitlines() if section is not None else []
    facts = (line.strip().lstrip("-*\u2022").strip() for line in lines)
    return [fact for fact in facts if fact][:MAX_SAVED_FACTS]
