"""The agent's memory, for all who save and look up: facts now, with what files and sessions hold."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass

from agent_common.telemetry import logger

from ..errors import AgentRuntimeError, ToolFailure
from ..ports import Clock, MemoryHit
from ..store import Database
from ..workspace import Home
from .index.indexer import Indexer
from .index.schema import KINDS, Kind
from .index.vectors import Vector
from .search.embeddings import EmbeddingSearch
from .search.relevance import RelevanceCheck
from .search.search import MemoryQuery, Sees, recalled, searching, worth_showing
from .sources import facts
from .sources.facts import MOST_FACTS, FactDraft
from .text.sanitize import clean, cut

log = logger(__name__)

LONGEST_FACT = 2000
"""Characters."""
LONGEST_KEPT = 1000
"""The same of a fact that is kept before a conversation is shortened."""
MOST_KEPT = 50
MOST_FOUND = 20
SECONDS = 5.0
"""That a search may take; it takes milliseconds."""
RECALL_SECONDS = 1.0
KEEP_SECONDS = 10.0
NOT_YET = "not everything could be looked through yet; ask again in a minute"
TOO_MANY = (
    "the workspace has more Markdown than memory can hold, and some files are never found here; use grep for those"
)
COUNTED = 3
"""So many of the first facts of an answer count as used."""


@dataclass(frozen=True, slots=True)
class SavedFact:
    """What came of saving a fact."""

    id: str
    text: str
    """As it is kept: without secrets and what does not show."""
    known: bool
    """It was there already, and is as good as new now."""


@dataclass(frozen=True, slots=True)
class MemoryAnswer:
    """What a search has found, best first."""

    found: list[MemoryHit]
    missing: Sequence[str] = ()
    """What was not looked through, and what to do about it."""

    @property
    def complete(self) -> bool:
        """All that there is was looked through."""
        return not self.missing


class MemoryService:
    """Fills ports.Memory. `start` once, `close` behind the last turn."""

    def __init__(
        self,
        database: Database,
        home: Home,
        clock: Clock,
        secrets: Sequence[str] = (),
        *,
        meaning: EmbeddingSearch | None = None,
        most_facts: int = MOST_FACTS,
    ) -> None:
        """`secrets` are texts that never go into it. With `meaning` a search also finds what has none of its words."""
        self._database, self._clock, self._secrets, self._most = database, clock, tuple(secrets), most_facts
        self._tending = Indexer(database, home, clock, self._secrets)
        self._meaning = meaning

    def start(self) -> None:
        self._tending.start()
        if self._meaning is not None:
            self._meaning.start()

    async def close(self) -> None:
        await self._tending.close()
        if self._meaning is not None:
            await self._meaning.close()

    # -- facts

    async def save(
        self, text: str, *, principal: str, session_id: str, origin: str = "agent", tags: Sequence[str] = ()
    ) -> SavedFact:
        """Returns once it is on disk. Raises ToolFailure, StoreError."""
        kept = clean(text, self._secrets)
        if not kept:
            raise ToolFailure("text: says nothing", kind="invalid")
        if len(kept) > LONGEST_FACT:
            raise ToolFailure(f"text: has more than {LONGEST_FACT} characters: save several facts", kind="invalid")
        labels = tuple(label for tag in tags if (label := clean(tag, self._secrets).replace("\n", " ")))
        draft = FactDraft(kept, principal, session_id, origin, labels[: facts.MOST_TAGS])
        what, now = await asyncio.to_thread(draft.indexed), self._clock.now_ms()
        name, known = await self._database.write(
            lambda connection: facts.save(connection, draft, what, now, self._most), durable=True
        )
        if self._meaning is not None:
            self._meaning.wake()
        return SavedFact(name, kept, known)

    async def forget(self, name: str, *, principal: str) -> str:
        """The text of the fact that is gone, once that is on disk. Raises ToolFailure, StoreError."""
        text = await self._database.write(lambda connection: facts.forget(connection, principal, name), durable=True)
        if text is None:
            raise ToolFailure(f"id: there is no fact {name}; memory_search shows the ids of facts", kind="invalid")
        return text

    async def forget_messages(self, message_ids: Sequence[str]) -> None:
        """Takes what was said in messages out of memory, before they are deleted; facts stay. Raises StoreError."""
        await self._tending.forget(message_ids)

    # -- searches

    async def search(
        self,
        query: str,
        *,
        principal: str,
        session_id: str = "",
        most: int = 5,
        kinds: Sequence[Kind] = KINDS,
        sees: Sees | None = None,
    ) -> MemoryAnswer:
        """What fits a query best; of the session itself only what its model does not see any more. Facts among the
        first count as used. Raises ToolFailure, StoreError."""
        try:
            async with asyncio.timeout(SECONDS):
                vector, missing = await asyncio.gather(self._meant(query), self._up_to_date(principal, kinds))
                asked = MemoryQuery(query, principal, session_id, kinds, self._clock.now_ms(), vector)
                hits, _ = await self._database.read(searching(asked))
        except TimeoutError:
            raise ToolFailure("memory did not answer in time; try again", kind="timeout") from None
        shown = worth_showing(hits, min(most, MOST_FOUND), sees)
        self._note_use([hit.candidate.entry for hit in shown[:COUNTED] if hit.candidate.fact is not None])
        return MemoryAnswer([recalled(hit) for hit in shown], missing)

    async def recall(self, query: str, *, principal: str, session_id: str, most: int) -> Sequence[MemoryHit]:
        try:
            async with asyncio.timeout(RECALL_SECONDS):
                asked = MemoryQuery(query, principal, session_id, ("fact",), self._clock.now_ms())
                hits, found = await self._database.read(searching(asked))
        except (TimeoutError, AgentRuntimeError, sqlite3.Error) as error:
            log.warning("nothing is recalled", reason=str(error) or "it took too long")
            return ()
        judge = RelevanceCheck(found)
        about = [hit for hit in hits[: 2 * MOST_FOUND] if judge.is_about(hit.candidate.text)]
        return [recalled(hit) for hit in worth_showing(about, most, None)]

    async def keep(self, texts: Sequence[str], *, principal: str, session_id: str) -> int:
        new = 0
        try:
            async with asyncio.timeout(KEEP_SECONDS):
                for text in texts[:MOST_KEPT]:
                    new += await self._keep_one(cut(text, LONGEST_KEPT), principal, session_id)
        except (TimeoutError, AgentRuntimeError, sqlite3.Error) as error:
            log.warning("facts are not kept", reason=str(error) or "it took too long", session_id=session_id)
        return new

    # -- inside

    async def _keep_one(self, text: str, principal: str, session_id: str) -> bool:
        """Whether it is new."""
        if not clean(text, self._secrets):
            return False
        saved = await self.save(text, principal=principal, session_id=session_id, origin="agent (compaction)")
        return not saved.known

    async def _up_to_date(self, principal: str, kinds: Sequence[Kind]) -> list[str]:
        """What an answer will miss."""
        complete, left_out = True, False
        if "session" in kinds:
            complete = await self._tending.sessions()
        if "file" in kinds:
            complete = await self._tending.files(principal) and complete
            left_out = self._tending.leaves_out_files(principal)
        return [*([] if complete else [NOT_YET]), *([TOO_MANY] if left_out else [])]

    async def _meant(self, query: str) -> Vector | None:
        return await self._meaning.query(query) if self._meaning is not None else None

    def _note_use(self, entries: Sequence[int]) -> None:
        """Nobody waits for that, and a crash may lose it."""
        if entries:
            now = self._clock.now_ms()
            noted = self._database.write(lambda connection: facts.used(connection, entries, now))
            noted.add_done_callback(_forgive)


def _forgive(noted: asyncio.Future[None]) -> None:
    if not noted.cancelled() and (error := noted.exception()) is not None:
        log.warning("a use is not noted", reason=str(error))


class NoMemory:
    """Remembers nothing."""

    async def save(
        self, text: str, *, principal: str, session_id: str, origin: str = "agent", tags: Sequence[str] = ()
    ) -> SavedFact:
        raise ToolFailure("nothing is remembered here", kind="unavailable")

    async def forget(self, name: str, *, principal: str) -> str:
        raise ToolFailure("nothing is remembered here", kind="unavailable")

    async def search(
        self, query: str, *, principal: str, session_id: str = "", most: int = 5, sees: Sees | None = None
    ) -> MemoryAnswer:
        return MemoryAnswer([])

    async def recall(self, query: str, *, principal: str, session_id: str, most: int) -> Sequence[MemoryHit]:
        return ()

    async def keep(self, texts: Sequence[str], *, principal: str, session_id: str) -> int:
        return 0
