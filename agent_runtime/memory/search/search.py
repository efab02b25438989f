"""Answer a query: which entries the asker may see, in which order, and where each is from."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from ...ports import MemoryHit
from ...sessions import spoken_messages
from ...store import Unit
from ..index import vectors
from ..index.schema import Kind, Scope, find_scope
from ..index.vectors import Vector
from ..sources.use_count import UseCount
from ..text.sanitize import digest
from . import candidates
from .candidates import Candidate, FoundEntry
from .query import parse_query
from .ranking import score

MIN_SCORE_SHARE = 0.1
"""Share of the best score that an entry must reach to be in the answer."""

MAX_NEAREST = 20
"""Entries closest in meaning that are added to those found by words."""
RANK_OFFSET = 60
"""The usual constant of reciprocal rank fusion, by which the second place counts nearly as much as the first."""

CanRead = Callable[[str], bool]
"""Returns whether the asker may read a file of the workspace."""


@dataclass(frozen=True, slots=True)
class MemoryQuery:
    """A query, who asks it, and when, in epoch milliseconds."""

    text: str
    principal: str
    session_id: str
    kinds: Sequence[Kind]
    now: int
    vector: Vector | None = None
    """The text's embedding; None without an embedding model."""


@dataclass(frozen=True, slots=True)
class RankedEntry:
    """A candidate with its score and origin."""

    candidate: Candidate
    score: float
    source: str
    author: str

    @property
    def order(self) -> tuple[float, int, int]:
        return -self.score, -self.candidate.at, -self.candidate.entry


def search_unit(query: MemoryQuery) -> Unit[tuple[list[RankedEntry], FoundEntry]]:
    """Return the unit of work that searches; it returns the ranked entries, best first, and the raw candidates."""

    def unit(connection: sqlite3.Connection) -> tuple[list[RankedEntry], FoundEntry]:
        scopes = _scopes(connection, query)
        found = candidates.find_candidates(connection, scopes, parse_query(query.text) if scopes else ())
        spoken = [one for one in found.candidates if one.kind == "session"]
        speakers = _visible_messages(connection, spoken, query.session_id) if spoken else {}
        hits = (_rank(candidate, speakers, query.now) for candidate in found.candidates)
        in_order = sorted((hit for hit in hits if hit is not None), key=lambda hit: hit.order)
        if query.vector is not None:
            in_order = _fuse_with_vectors(connection, scopes, in_order, query)
        return in_order, found

    return unit


def _fuse_with_vectors(
    connection: sqlite3.Connection, scopes: Sequence[Scope], by_words: Sequence[RankedEntry], query: MemoryQuery
) -> list[RankedEntry]:
    """Merge the order by words and the order by meaning with reciprocal rank fusion."""
    assert query.vector is not None  # noqa: S101  for the type checker
    known = {hit.candidate.entry: hit for hit in by_words}
    near = vectors.nearest(connection, scopes, query.vector, known, MAX_NEAREST)
    for candidate in candidates.load_candidates(connection, scopes, [entry for entry in near if entry not in known]):
        if (hit := _rank(candidate, {}, query.now)) is not None:
            known[candidate.entry] = hit
    ranks: dict[int, float] = dict.fromkeys(known, 0.0)
    for order in ([hit.candidate.entry for hit in by_words], near):
        for rank, entry in enumerate(order, 1):
            if entry in ranks:
                ranks[entry] += 1 / (RANK_OFFSET + rank)
    fused = (replace(hit, score=ranks[entry]) for entry, hit in known.items())
    return sorted(fused, key=lambda hit: hit.order)


def _scopes(connection: sqlite3.Connection, query: MemoryQuery) -> list[Scope]:
    """Return the scopes that a principal may search: its own, and the files of the workspace."""
    own = query.principal
    whose: dict[Kind, Sequence[str | None]] = {"fact": (own,), "session": (own,), "file": (None, own)}
    asked = (find_scope(connection, kind, owner) for kind in query.kinds for owner in whose[kind])
    return [one for one in asked if one is not None and one.entries > 0]


def _visible_messages(
    connection: sqlite3.Connection, spoken: Sequence[Candidate], session_id: str
) -> dict[str, tuple[str, str]]:
    """Return message -> its session and author, without messages that the asking session's model still sees."""
    shown = spoken_messages.readable_messages(connection, {one.source_id for one in spoken})
    if any(session == session_id for session, _ in shown.values()):
        seen_from = spoken_messages.view_start(connection, session_id)
        in_view = {one.source_id for one in spoken if (one.at, one.source_id) >= seen_from}
        return {
            message_id: who for message_id, who in shown.items() if who[0] != session_id or message_id not in in_view
        }
    return shown


def _rank(candidate: Candidate, speakers: Mapping[str, tuple[str, str]], now: int) -> RankedEntry | None:
    """Rank a candidate; None if it was forgotten, taken back or archived since it was indexed."""
    fact = candidate.fact
    uses = UseCount()
    source = f"file {candidate.source_id}"
    by = ""
    if candidate.kind == "session":
        if candidate.source_id not in speakers:
            return None
        session, by = speakers[candidate.source_id]
        source = f"session {session}"
    elif candidate.kind == "fact":
        if fact is None:
            return None
        uses = fact.uses
        source = "fact"
        by = fact.origin
    return RankedEntry(candidate, score(candidate.relevance, candidate.kind, candidate.at, uses, now), source, by)


def select_hits(hits: Sequence[RankedEntry], limit: int, can_read: CanRead | None) -> list[RankedEntry]:
    """Return the best hits that the asker may read, each text once."""
    shown: list[RankedEntry] = []
    texts: set[bytes] = set()
    for hit in hits:
        if len(shown) == limit or hit.score < MIN_SCORE_SHARE * hits[0].score:
            break
        same = digest(hit.candidate.text)
        if same in texts or (
            hit.candidate.kind == "file" and can_read is not None and not can_read(hit.candidate.source_id)
        ):
            continue
        texts.add(same)
        shown.append(hit)
    return shown


def to_memory_hit(hit: RankedEntry) -> MemoryHit:
    one = hit.candidate
    fact = hit.candidate.fact
    name, tags = (fact.name, fact.tags) if fact is not None else ("", ())
    return MemoryHit(one.text, hit.source, one.at, name, hit.author, tags)
