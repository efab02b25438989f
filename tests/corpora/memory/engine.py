"""The memory of the runtime, filled with facts, as a search that can be evaluated."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from agent_runtime.memory import MemoryService
from agent_runtime.runtime import MIGRATIONS
from agent_runtime.store import Database
from agent_runtime.workspace import Home
from agent_testing import ManualClock

from .corpus import Fact
from .evaluate import Search

_YEAR = 365 * 86_400
_WHO = "ada"


@asynccontextmanager
async def remembered(folder: Path, facts: Iterable[Fact]) -> AsyncGenerator[Search]:
    """The facts in a database in that folder, which is closed at the end. Their tags are not told: they say nothing of
    the matter that a user would write.
    """
    clock = ManualClock()
    database = Database(folder / "agent.db", MIGRATIONS)
    database.open()
    try:
        memory = MemoryService(database, Home(folder), clock)
        ids = {fact.text: fact.id for fact in facts}
        for text in ids:
            await memory.save(text, principal=_WHO, session_id="ses_told")

        async def search(query: str) -> Sequence[str]:
            """Years after the last one, so that what was found then does not count as much used now."""
            clock.advance(2 * _YEAR)
            return [ids[found.text] for found in (await memory.search(query, principal=_WHO, limit=10)).found]

        yield search
    finally:
        database.close()
