"""Ask the mesh for vectors: of queries, which a search waits for briefly, and of all entries in the background.

An embedder that fails delays one search by a short deadline and the next ones not at all: it is asked again after a
pause that doubles, for a query or an entry. Entries without a vector get theirs when it works again.
"""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, replace

from agent_common.backoff import Backoff
from agent_common.telemetry import logger

from ...errors import AgentRuntimeError, MeshUnavailable
from ...ports import Clock, Mesh
from ...store import Database, Unit
from ..index import vectors
from ..index.schema import get_state, set_state
from ..index.vectors import Vector

log = logger(__name__)

QUERY_SECONDS = 0.5
"""Seconds that a search waits for the vector of its query."""
BATCH_SECONDS = 30.0
MAX_BATCH = 32
MAX_TEXT_LENGTH = 2000
"""Characters of a text that are embedded; the rest is left out."""
BACKOFF = Backoff(first=1.0, most=300.0)
"""Seconds before a failing embedder is asked again."""
POLL_SECONDS = 15.0
"""Seconds between two searches for entries without a vector: indexed files and earlier processes leave some."""
MAX_CACHED_QUERIES = 128
"""Queries whose vectors are kept."""
DELETE_BATCH = 500
"""Vectors of another model that are deleted in one transaction."""
_PROGRESS_KEY = "vectors"


@dataclass(frozen=True, slots=True)
class EmbeddingProgress:
    """The model, its dimensions, and the last entry that was given a vector."""

    model: str
    dimensions: int = 0
    entry: int = 0

    @classmethod
    def parse(cls, text: str | None) -> EmbeddingProgress:
        parts = text.split(" ", 2) if text else []
        return cls(parts[2], int(parts[0]), int(parts[1])) if len(parts) == 3 else cls("")

    def __str__(self) -> str:
        return f"{self.dimensions} {self.entry} {self.model}"


class EmbeddingSearch:
    """Makes the vectors of one embedding model. Call `start` once, and `close` in the end."""

    def __init__(self, database: Database, mesh: Mesh, model: str, clock: Clock) -> None:
        self._database = database
        self._mesh = mesh
        self._model = model
        self._clock = clock
        self._queries: OrderedDict[str, Vector] = OrderedDict()
        self._wakeup = asyncio.Event()
        self._failures = 0
        self._retry_at = float("-inf")
        self._batch = MAX_BATCH
        self._complete_to = 0
        """No entry up to this one lacks a vector."""
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name="memory vectors")

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    def wake(self) -> None:
        """Embed new entries now."""
        self._wakeup.set()

    async def embed_query(self, text: str) -> Vector | None:
        """Return the vector of a query; None if the embedder is not available now."""
        text = text[:MAX_TEXT_LENGTH].encode(errors="replace").decode()
        if text in self._queries:
            self._queries.move_to_end(text)
            return self._queries[text]
        if self._clock.monotonic() < self._retry_at:
            return None
        if self._failures:  # one search tries the embedder, the others do not wait for it
            self._retry_at = self._clock.monotonic() + QUERY_SECONDS
        try:
            (vector,) = await self._embed([text], QUERY_SECONDS)
        except MeshUnavailable:
            return None
        self._queries[text] = vector
        if len(self._queries) > MAX_CACHED_QUERIES:
            self._queries.popitem(last=False)
        return vector

    # -- in the background

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(max(0.0, self._retry_at - self._clock.monotonic()))
            self._wakeup.clear()
            try:
                while await self._step():
                    pass
            except AgentRuntimeError as error:
                log.warning("entries of memory have no vectors yet", reason=error.message)
            except Exception:  # a bug here must not end the task
                log.exception("entries of memory have no vectors yet")
                self._record_failure()
            else:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._wakeup.wait(), POLL_SECONDS)

    async def _step(self) -> bool:
        """Embed the next entries. Return whether there were any. Raises MeshUnavailable, StoreError."""
        reached = EmbeddingProgress.parse(
            await self._database.read(lambda connection: get_state(connection, _PROGRESS_KEY))
        )
        if reached.model != self._model:
            reached = await self._reset(EmbeddingProgress(self._model))
        newest, rows = await self._database.read(_select_next(max(reached.entry, self._complete_to)))
        if not rows:
            self._complete_to = newest
            return False
        some = rows[: self._batch]
        try:
            made = await self._embed([row["text"] for row in some], BATCH_SECONDS)
        except MeshUnavailable:
            if len(some) > 1 and self._failures == 1:  # perhaps one text is the cause
                self._batch = 1
                self._retry_at = float("-inf")
                return True
            if len(rows) == 1 or not await self._can_embed(rows[1]):
                raise
            made = []  # the embedder works: this text is left without a vector
        dimensions = len(made[0].numbers) if made else reached.dimensions
        if dimensions != reached.dimensions and reached.dimensions:
            await self._reset(EmbeddingProgress(self._model, dimensions))
            self._record_failure()  # a model whose dimensions keep changing must not cause endless work
            return False
        self._batch = min(MAX_BATCH, self._batch * 2)
        now = replace(reached, dimensions=dimensions, entry=some[-1]["id"] if made else some[0]["id"])
        await self._database.write(lambda connection: _store_vectors(connection, now, some, made))
        return True

    async def _can_embed(self, other: sqlite3.Row) -> bool:
        """Return whether another text can be embedded now."""
        with contextlib.suppress(MeshUnavailable):
            await self._embed([other["text"]], BATCH_SECONDS)
            return True
        return False

    async def _reset(self, progress: EmbeddingProgress) -> EmbeddingProgress:
        """Delete the vectors of another model. After a crash the next process continues."""
        self._queries.clear()
        self._complete_to = 0
        while await self._database.write(lambda connection: vectors.delete_vectors(connection, DELETE_BATCH)):
            pass
        await self._database.write(lambda connection: set_state(connection, _PROGRESS_KEY, str(progress)))
        return progress

    async def _embed(self, texts: Sequence[str], seconds: float) -> list[Vector]:
        """Return the texts' vectors. Raises MeshUnavailable, also for an invalid answer."""
        try:
            async with asyncio.timeout(seconds):
                values = await self._mesh.embed([text[:MAX_TEXT_LENGTH] for text in texts], model=self._model)
            made = await asyncio.to_thread(_to_vectors, values)
            if len(made) != len(texts) or len({len(one.numbers) for one in made}) != 1:
                raise ValueError(f"{len(made)} vectors for {len(texts)} texts")
        except (TimeoutError, ValueError, TypeError, AttributeError) as error:
            self._record_failure()
            raise MeshUnavailable(f"no vectors came: {error or 'it took too long'}") from error
        except MeshUnavailable:
            self._record_failure()
            raise
        self._failures = 0
        self._retry_at = float("-inf")
        return made

    def _record_failure(self) -> None:
        self._failures += 1
        self._retry_at = self._clock.monotonic() + BACKOFF.pause(self._failures)


def _select_next(reached: int) -> Unit[tuple[int, list[sqlite3.Row]]]:
    """Return a unit of work that reads the id of the last entry, and the next entries to embed."""

    def unit(connection: sqlite3.Connection) -> tuple[int, list[sqlite3.Row]]:
        newest = connection.execute("SELECT coalesce(max(id), 0) FROM memory_entries").fetchone()[0]
        return newest, connection.execute(_NEXT, (reached, MAX_BATCH + 1)).fetchall()

    return unit


def _to_vectors(values: Sequence[Sequence[float]]) -> list[Vector]:
    return [Vector.from_values([float(value) for value in one]) for one in values]


def _store_vectors(
    connection: sqlite3.Connection, now: EmbeddingProgress, rows: Sequence[sqlite3.Row], made: Sequence[Vector]
) -> None:
    for row, vector in zip(rows, made, strict=False):
        vectors.store_vector(connection, row["id"], row["scope"], vector)
    set_state(connection, _PROGRESS_KEY, str(now))


_NEXT = """
SELECT e.id, e.scope, e.text FROM memory_entries e JOIN memory_scopes s ON s.id = e.scope
WHERE e.id > ? AND s.kind IN ('fact', 'file') ORDER BY e.id LIMIT ?
"""
