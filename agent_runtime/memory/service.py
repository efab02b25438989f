"""Save facts, and search facts, files and past sessions."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass

from agent_common.redaction import Redactor
from agent_common.telemetry import logger

from ..errors import AgentRuntimeError, ToolFailure
from ..ports import Clock, MemoryHit
from ..store import Database
from ..workspace import Home
from .index.schema import KINDS
from .index.vectors import Vector
from .indexer import Indexer
from .search.embeddings import EmbeddingSearch
from .search.relevance import RelevanceCheck
from .search.search import CanRead, MemoryQuery, search_unit, select_hits, to_memory_hit
from .sources import facts
from .sources.facts import MAX_FACTS, FactDraft
from .text.sanitize import clean, truncate

log = logger(__name__)

MAX_FACT_LENGTH = 2000
"""Characters of a fact."""
MAX_KEPT_LENGTH = 1000
"""Characters of a fact that is saved before a compaction."""
MAX_KEPT = 50
MAX_FOUND = 20
SEARCH_SECONDS = 5.0
"""Deadline of a search, which normally takes milliseconds only."""
RECALL_SECONDS = 1.0
SAVE_FACTS_SECONDS = 10.0
NOT_INDEXED_YET = "not everything could be looked through yet; ask again in a minute"
TOO_MANY_FILES = (
    "the workspace has more Markdown than memory can hold, and some files are never found here; use grep for those"
)
MAX_USES_COUNTED = 3
"""The first facts of an answer that count as used."""


@dataclass(frozen=True, slots=True)
class SavedFact:
    """The outcome of saving a fact."""

    id: str
    text: str
    """The text as it is stored, without secrets and invisible characters."""
    known: bool
    """Whether it was there already; then it counts as fresh again."""


@dataclass(frozen=True, slots=True)
class MemoryAnswer:
    """The entries that a search has found, best first."""

    found: list[MemoryHit]
    missing: Sequence[str] = ()
    """Texts that say what was not searched, and what to do about it."""

    @property
    def complete(self) -> bool:
        """Whether everything was searched."""
        return not self.missing


class MemoryService:
    """Implements ports.Memory. Call `start` once, and `close` after the last turn."""

    def __init__(
        self,
        database: Database,
        home: Home,
        clock: Clock,
        redactor: Redactor | None = None,
        *,
        embeddings: EmbeddingSearch | None = None,
        max_facts: int = MAX_FACTS,
    ) -> None:
        """`redactor` removes secrets from what is stored. With `embeddings` a search also finds texts that share no
        word with it."""
        self._database = database
        self._clock = clock
        self._max_facts = max_facts
        self._redactor = redactor or Redactor()
        self._indexer = Indexer(database, home, clock, self._redactor)
        self._embeddings = embeddings

    def start(self) -> None:
        self._indexer.start()
        if self._embeddings is not None:
            self._embeddings.start()

    async def close(self) -> None:
        await self._indexer.close()
        if self._embeddings is not None:
            await self._embeddings.close()

    # -- facts

    async def save(
        self, text: str, *, principal: str, session_id: str, origin: str = "agent", tags: Sequence[str] = ()
    ) -> SavedFact:
        """Save a fact, or confirm a known one, and return once it is on disk. Raises ToolFailure, StoreError."""
        kept = clean(text, self._redactor)
        if not kept:
            raise ToolFailure("text: says nothing", kind="invalid")
        if len(kept) > MAX_FACT_LENGTH:
            raise ToolFailure(f"text: has more than {MAX_FACT_LENGTH} characters: save several facts", kind="invalid")
        labels = tuple(label for tag in tags if (label := clean(tag, self._redactor).replace("\n", " ")))
        draft = FactDraft(kept, principal, session_id, origin, labels[: facts.MAX_TAGS])
        what = await asyncio.to_thread(draft.to_indexed)
        now = self._clock.now_ms()
        name, known = await self._database.write(
            lambda connection: facts.save_fact(connection, draft, what, now, self._max_facts), durable=True
        )
        if self._embeddings is not None:
            self._embeddings.wake()
        return SavedFact(name, kept, known)

    async def forget(self, name: str, *, principal: str) -> str:
        """Delete a fact durably and return its text. Raises ToolFailure, StoreError."""
        text = await self._database.write(
            lambda connection: facts.delete_fact(connection, principal, name), durable=True
        )
        if text is None:
            raise ToolFailure(f"id: there is no fact {name}; memory_search shows the ids of facts", kind="invalid")
        return text

    async def forget_messages(self, message_ids: Sequence[str]) -> None:
        """Remove messages from the index before they are deleted; facts stay. Raises StoreError."""
        await self._indexer.forget_messages(message_ids)

    # -- searches

    async def search(
        self,
        query: str,
        *,
        principal: str,
        session_id: str = "",
        limit: int = 5,
        can_read: CanRead | None = None,
    ) -> MemoryAnswer:
        """Return the best matches; of the session itself only messages that its model no longer sees. The first facts
        of the answer count as used. Raises ToolFailure, StoreError."""
        try:
            async with asyncio.timeout(SEARCH_SECONDS):
                vector, missing = await asyncio.gather(self._embed_query(query), self._update_index(principal))
                asked = MemoryQuery(query, principal, session_id, KINDS, self._clock.now_ms(), vector)
                hits, _ = await self._database.read(search_unit(asked))
        except TimeoutError:
            raise ToolFailure("memory did not answer in time; try again", kind="timeout") from None
        shown = select_hits(hits, min(limit, MAX_FOUND), can_read)
        self._record_use([hit.candidate.entry for hit in shown[:MAX_USES_COUNTED] if hit.candidate.fact is not None])
        return MemoryAnswer([to_memory_hit(hit) for hit in shown], missing)

    async def recall(self, query: str, *, principal: str, session_id: str, limit: int) -> Sequence[MemoryHit]:
        try:
            async with asyncio.timeout(RECALL_SECONDS):
                asked = MemoryQuery(query, principal, session_id, ("fact",), self._clock.now_ms())
                hits, found = await self._database.read(search_unit(asked))
        except (TimeoutError, AgentRuntimeError, sqlite3.Error) as error:
            log.warning("facts could not be recalled", reason=str(error) or "it took too long")
            return ()
        judge = RelevanceCheck(found)
        about = [hit for hit in hits[: 2 * MAX_FOUND] if judge.is_about(hit.candidate.text)]
        return [to_memory_hit(hit) for hit in select_hits(about, limit, None)]

    async def save_facts(self, texts: Sequence[str], *, principal: str, session_id: str) -> int:
        new = 0
        try:
            async with asyncio.timeout(SAVE_FACTS_SECONDS):
                for text in texts[:MAX_KEPT]:
                    new += await self._save_one(truncate(text, MAX_KEPT_LENGTH), principal, session_id)
        except (TimeoutError, AgentRuntimeError, sqlite3.Error) as error:
            log.warning("facts could not be saved", reason=str(error) or "it took too long", session_id=session_id)
        return new

    # -- inside

    async def _save_one(self, text: str, principal: str, session_id: str) -> bool:
        """Save a fact. Return whether it is new."""
        if not clean(text, self._redactor):
            return False
        saved = await self.save(text, principal=principal, session_id=session_id, origin="agent (compaction)")
        return not saved.known

    async def _update_index(self, principal: str) -> list[str]:
        """Bring the index up to date. Return texts that say what an answer will miss."""
        complete = await self._indexer.update_sessions()
        complete = await self._indexer.update_files(principal) and complete
        left_out = self._indexer.has_missing_files(principal)
        return [*([] if complete else [NOT_INDEXED_YET]), *([TOO_MANY_FILES] if left_out else [])]

    async def _embed_query(self, query: str) -> Vector | None:
        return await self._embeddings.embed_query(query) if self._embeddings is not None else None

    def _record_use(self, entries: Sequence[int]) -> None:
        """Count a use of facts, without waiting for the write; a crash may lose it."""
        if entries:
            now = self._clock.now_ms()
            noted = self._database.write(lambda connection: facts.record_use(connection, entries, now))
            noted.add_done_callback(_log_failure)


def _log_failure(noted: asyncio.Future[None]) -> None:
    if not noted.cancelled() and (error := noted.exception()) is not None:
        log.warning("a use of a fact was not recorded", reason=str(error))


class NoMemory:
    """Implements ports.Memory without keeping anything."""

    async def save(
        self, text: str, *, principal: str, session_id: str, origin: str = "agent", tags: Sequence[str] = ()
    ) -> SavedFact:
        raise ToolFailure("nothing is remembered here", kind="unavailable")

    async def forget(self, name: str, *, principal: str) -> str:
        raise ToolFailure("nothing is remembered here", kind="unavailable")

    async def search(
        self, query: str, *, principal: str, session_id: str = "", limit: int = 5, can_read: CanRead | None = None
    ) -> MemoryAnswer:
        return MemoryAnswer([])

    async def recall(self, query: str, *, principal: str, session_id: str, limit: int) -> Sequence[MemoryHit]:
        return ()

    async def save_facts(self, texts: Sequence[str], *, principal: str, session_id: str) -> int:
        return 0
