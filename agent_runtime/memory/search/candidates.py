"""Find entries for a query: by rare terms first, within a budget.

The list of a frequent term grows with the memory and distinguishes little. So terms are looked up in the order of their
rarity until the budget is spent. The rarest of the rest are looked up in pairs, which keeps the lists short, and all of
the rest are searched for in the texts of the best candidates.
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
"""Postings of the index that one query reads."""
MAX_CANDIDATES = 60
"""Texts that one query reads."""
MAX_PAIRED_TERMS = 4
"""Frequent terms that are looked up in pairs."""
GATHER_SECONDS = 2.0
"""Seconds after which a query uses what it has found: the disk is slow, or something is wrong."""


@dataclass(frozen=True, slots=True)
class Term:
    """A term of the query that the index has."""

    query_term: QueryTerms
    scopes: tuple[int, ...]
    """The scopes that have it."""
    entry_count: int
    """Number of entries that have it."""
    gain: float
    """The relevance that an entry gains by it."""
    folded: str
    """The substring of a folded text by which the text has the term."""

    def match_expression(self) -> str:
        return index.match_expression(self.scopes, self.query_term.term)


@dataclass(slots=True)
class TermWeights:
    """The relevance that entries gain by the query's terms."""

    sums: dict[int, float] = field(default_factory=lambda: defaultdict[int, float](float))
    hints: dict[int, float] = field(default_factory=dict[int, float])
    """Further gains of some entries, by terms that are too frequent to be looked up in full."""
    skipped: list[Term] = field(default_factory=list[Term])
    """The terms that were too frequent."""

    def best(self, limit: int) -> list[int]:
        """Return the entries with the largest gains; of equal ones the latest."""
        sums = dict(self.sums)
        for entry, hint in self.hints.items():
            sums[entry] = sums.get(entry, 0.0) + hint
        if len(sums) > limit:
            least = heapq.nlargest(limit, sums.values())[-1]
            sums = {entry: gain for entry, gain in sums.items() if gain >= least}
        return heapq.nlargest(limit, sums, key=lambda entry: (sums[entry], entry))


@dataclass(frozen=True, slots=True)
class Candidate:
    """An entry that shares a term with the query, or is close to it in meaning."""

    entry: int
    kind: Kind
    text: str
    at: int
    source_id: str
    relevance: float
    fact: Fact | None


@dataclass(frozen=True, slots=True)
class FoundEntry:
    """The candidates of a query, and what its terms were."""

    candidates: list[Candidate]
    """Unordered."""
    query: Sequence[QueryTerms]
    terms: Sequence[Term]
    """The query's terms that the index has."""
    entries: int
    """Number of entries in all scopes that were searched."""


def find_candidates(connection: sqlite3.Connection, scopes: Sequence[Scope], query: Sequence[QueryTerms]) -> FoundEntry:
    """Return the entries of these scopes that may match. A unit of work that only reads."""
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
    """Return whether the candidate has a significant word of the query, not only parts of one."""
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
    """Load the entries that exist in one of the scopes."""
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
    """Return the query's terms that these scopes have, the rarest first."""
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
    left = POSTING_BUDGET
    until = time.monotonic() + GATHER_SECONDS
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
    """Add candidates for queries of frequent terms: entries that have two of them, and the latest that have one."""
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
    """Return what a text gains by the terms that were not looked up, judged by their characters in it."""
    if not skipped:
        return 0.0
    inside = fold(text)
    return sum([term.gain for term in skipped if term.folded in inside])


_CANDIDATES = """
SELECT e.id, e.scope, e.text, e.length, e.at, e.place, f.name, f.tags_json, f.origin, f.uses, f.used_at
FROM json_each(?) AS best JOIN memory_entries e ON e.id = best.value LEFT JOIN memory_facts f ON f.entry = e.id
"""
