"""What a search of memory takes among very many facts."""

from __future__ import annotations

import sqlite3
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from pathlib import Path

from agent_runtime.memory import MemoryService
from agent_runtime.memory.sources import facts as stored
from agent_runtime.runtime import MIGRATIONS
from agent_runtime.store import Database
from agent_runtime.workspace import Home
from agent_testing import ManualClock
from tests.corpora.memory import corpus
from tests.corpora.memory.baselines import Plain
from tests.corpora.memory.corpus import Fact
from tests.corpora.memory.large import large

from .load import Samples
from .targets import Live

FACTS = 100_000
_WHO = "ada"
_BATCH = 1000  # facts to a write
_QUESTIONS = 100  # of the corpus, beside the queries of the large set
_DAY = 86_400


async def recalling(_live: Live, _provider: str, count: int = FACTS) -> Samples:
    """Milliseconds from a query to its answer, by kind of query and all together. Searches come one after another, as
    from one agent, and each is asked for the first time. `plain` is the floor: the same queries to FTS5 as it is.
    """
    folder, queries, plain = await _filled(count)
    database = Database(folder / "agent.db", MIGRATIONS)
    database.open()
    try:
        clock = ManualClock()
        memory = MemoryService(database, Home(folder), clock)
        await memory.search("the first one loads what later ones share", principal=_WHO)
        samples: Samples = {"all": [], "plain": []}
        for kind, asked in queries.items():
            samples[kind] = []
            for query in asked:
                clock.advance(_DAY)
                began = time.perf_counter()
                await memory.search(query, principal=_WHO)
                samples[kind].append((time.perf_counter() - began) * 1000)
            samples["all"] += samples[kind]
            for query in asked:
                began = time.perf_counter()
                await plain.search(query)
                samples["plain"].append((time.perf_counter() - began) * 1000)
        return samples
    finally:
        database.close()


_made: dict[int, tuple[tempfile.TemporaryDirectory[str], Mapping[str, Sequence[str]], Plain]] = {}


async def _filled(count: int) -> tuple[Path, Mapping[str, Sequence[str]], Plain]:
    """A folder with a database of so many facts, what to ask, and the same facts in plain FTS5. It takes a minute to
    make, so all rounds share it."""
    if count not in _made:
        folder = tempfile.TemporaryDirectory(prefix="bench-memory-")
        whole = large(count)
        await _fill(Path(folder.name), whole.facts)
        asked = [question.text for question in islice(corpus.questions(), 0, None, 5)][:_QUESTIONS]
        _made[count] = folder, {**whole.queries, "question": asked}, Plain("trigram", whole.facts)
    folder, queries, plain = _made[count]
    return Path(folder.name), queries, plain


async def _fill(folder: Path, facts: Sequence[Fact]) -> None:
    """With the statements of the memory itself, many facts to a write."""
    database = Database(folder / "agent.db", MIGRATIONS)
    database.open()
    try:
        for at in range(0, len(facts), _BATCH):
            await database.write(_saving([fact.text for fact in facts[at : at + _BATCH]]))
    finally:
        database.close()


def _saving(texts: Sequence[str]) -> Callable[[sqlite3.Connection], None]:
    def unit(connection: sqlite3.Connection) -> None:
        now = ManualClock().now_ms()
        for text in texts:
            draft = stored.FactDraft(text, _WHO, "ses_told", "agent")
            stored.save_fact(connection, draft, draft.to_indexed(), now)

    return unit
