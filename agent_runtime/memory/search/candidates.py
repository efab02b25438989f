"""Finds entries by a query: the rare terms first, and no further than a budget allows.

A list of a frequent term is as long as the memory is large, and says little. So terms are taken in the order of their
rarity until the budget is spent. Of the rest the rarest are taken two by two, which keeps the lists short, and all are
looked for in the texts of the best candidates.
"""

from __future__ import annotations

import heapq
import itertools
import json
import sqlite3
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from ..index import index
from ..index.schema import Kind, Scope
from ..sources.facts import Fact
from ..text.normalize import fold
from ..text.terms import split_runs
from .query import QueryTerms
from .ranking import length_factor, rarity

POSTING_BUDGET = 2000
"""Places in the index that one query looks at."""
MAX_CANDIDATES = 60
"""Texts that are looked at."""
MAX_PAIRED_TERMS = 4
"""Frequent terms that are taken two by two."""
GATHER_SECONDS = 2.0
"""After which a query makes do with what it has: the disk is slow, or something has gone wrong."""


@dataclass(frozen=True, slots=True)
class Term:
    """A term of the query that is there."""

    query_term: QueryTerms
    scopes: tuple[int, ...]
    """Those that have it."""
    entry_count: int
    """Entries that have it."""
    gain: float
    """What an entry gains by it."""
    folded: str
    """What a folded text holds that has it."""

    def match_expression(self) -> str:
        return index.match_expression(self.scopes, self.query_term.term)


@dataclass(slots=True)
class TermWeights:
    """What entries gain by the terms that were looked up."""

    sums: dict[int, float] = field(default_factory=lambda: defaultdict[int, float](float))
    hints: dict[int, float] = field(default_factory=dict[int, float])
    """What some gain besides by terms that are too frequent to be looked up for all."""
    skipped: list[Term] = field(default_factory=list[Term])
    """Those terms."""

    def best(self, limit: int) -> list[int]:
        """Of those that gain the same the latest."""
        sums = dict(self.sums)
        for entry, hint in self.hints.items():
            sums[entry] = sums.get(entry, 0.0) + hint
        if len(sums) > limit:
            least = heapq.nlargest(limit, sums.values())[-1]
            sums = {entry: gain for entry, gain in sums.items() if gain >= least}
        return heapq.nlargest(limit, sums, key=lambda entry: (sums[entry], entry))


@dataclass(frozen=True, slots=True)
class Candidate:
    """An entry that shares something with the query."""

    entry: int
    kind: Kind
    text: str
    at: int
    source_id: str
    relevance: float
    fact: Fact | None


@dataclass(frozen=True, slots=True)
class FoundEntry:
    """What came of a query."""

    candidates: list[Candidate]
    """In no order."""
    query: Sequence[QueryTerms]
    terms: Sequence[Term]
    """Those of the query that are there at all."""
    entries: int
    """Of all scopes that were searched."""


def find_candidates(connection: sqlite3.Connection, scopes: Sequence[Scope], query: Sequence[QueryTerms]) -> FoundEntry:
    """Entries of these scopes that may be meant. A unit of work that only reads."""
    entries = sum(scope.entries for scope in scopes)
    mean = max(1.0, sum(scope.length for scope in scopes) / max(1, entries))
    present = _present_terms(connection, scopes, query)
    shares = _gather_weights(connection, present)

    def relevance(row: sqlite3.Row) -> float:
        gains = shares.sums.get(row["id"], 0.0) + _skipped_gain(row["text"], shares.skipped)
        return gains * length_factor(row["length"], mean)

    candidates = load_candidates(connection, scopes, shares.best(MAX_CANDIDATES), relevance)
    if any(wanted.verbatim for wanted in query):
        telling = [wanted for wanted in query if wanted.significant]
        candidates = [one for one in candidates if _has_verbatim_word(one, telling)]
    return FoundEntry(candidates, query, present, entries)


def _has_verbatim_word(candidate: Candidate, telling: Sequence[QueryTerms]) -> bool:
    """Whether it has one of the words that were asked for, and not only letters of it."""
    tags = candidate.fact.tags if candidate.fact is not None else ()
    inside = fold("\n".join((candidate.text, *tags)))
    words = {run for _, run in split_runs(inside)}
    return any(wanted.is_in(inside, words) for wanted in telling)


def load_candidates(
    connection: sqlite3.Connection,
    scopes: Sequence[Scope],
    entries: Sequence[int],
    relevance: Callable[[sqlite3.Row], float] = lambda _: 0.0,
) -> list[Candidate]:
    """Those of the entries that are there, and in one of the scopes."""
    kinds: dict[int, Kind] = {scope.id: scope.kind for scope in scopes}
    return [
        Candidate(
            entry=row["id"],
            kind=kinds[row["scope"]],
            text=row["text"],
            at=row["at"],
            source_id=row["place"],
            relevance=relevance(row),
            fact=Fact.from_row(row) if row["name"] is not None else None,
        )
        for row in connection.execute(_CANDIDATES, (json.dumps(entries),))
        if row["scope"] in kinds
    ]


def _present_terms(connection: sqlite3.Connection, scopes: Sequence[Scope], query: Sequence[QueryTerms]) -> list[Term]:
    """The terms of the query that are in these scopes, the rarest first."""
    entries = sum(scope.entries for scope in scopes)
    found: list[Term] = []
    for wanted in query:
        counts = index.count_entries(connection, scopes, wanted.term)
        if counts:
            having = sum(counts.values())
            found.append(Term(wanted, tuple(counts), having, wanted.weight * rarity(entries, having), wanted.folded))
    return sorted(found, key=lambda term: (term.entry_count, term.query_term.term))


def _gather_weights(connection: sqlite3.Connection, present: Sequence[Term]) -> TermWeights:
    shares = TermWeights()
    left, until = POSTING_BUDGET, time.monotonic() + GATHER_SECONDS
    for term in present:
        if term.entry_count > left or time.monotonic() > until:
            shares.skipped.append(term)
            continue
        left -= term.entry_count
        for entry in index.matching_entries(connection, term.match_expression(), POSTING_BUDGET):
            shares.sums[entry] += term.gain
    if shares.skipped and time.monotonic() < until:
        _add_hints(connection, shares)
    return shares


def _add_hints(connection: sqlite3.Connection, shares: TermWeights) -> None:
    """Candidates for queries that are made of frequent terms: those that have two, and the latest of those with one."""
    telling = [term for term in shares.skipped if term.query_term.significant][:MAX_PAIRED_TERMS] or shares.skipped[
        :MAX_PAIRED_TERMS
    ]
    for one, other in itertools.combinations(telling, 2):
        if one.query_term.word != other.query_term.word:
            for entry in index.matching_entries(
                connection, f"({one.match_expression()}) AND ({other.match_expression()})", POSTING_BUDGET // 10
            ):
                shares.hints[entry] = shares.hints.get(entry, 0.0) + one.gain + other.gain
    for entry in index.matching_entries(connection, telling[0].match_expression(), POSTING_BUDGET // 10):
        shares.hints.setdefault(entry, telling[0].gain)


def _skipped_gain(text: str, skipped: Sequence[Term]) -> float:
    """What a text gains by the terms that were not looked up: whether it holds their signs at all."""
    if not skipped:
        return 0.0
    inside = fold(text)
    return sum([term.gain for term in skipped if term.folded in inside])


_CANDIDATES = """
SELECT e.id, e.scope, e.text, e.length, e.at, e.place, f.name, f.tags_json, f.origin, f.uses, f.used_at
FROM json_each(?) AS best JOIN memory_entries e ON e.id = best.value LEFT JOIN memory_facts f ON f.entry = e.id
"""
