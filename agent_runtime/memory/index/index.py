"""The index: which terms are in which entries of a scope. Each function is a part of a unit of work.

The FTS5 table stores no texts. To delete an entry, it must be given exactly the terms that were added, else it reports
corruption. They are computed again from the text, and a checksum shows whether they are the same: a Python with a newer
Unicode version may split words differently. In that case the old terms stay in the index and match no entry.
"""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ..text.terms import extract_terms
from . import vectors
from .schema import Scope

_LENGTH_KINDS = "wbhte"
"""Kinds of terms that count towards the length of a text."""


@dataclass(frozen=True, slots=True)
class IndexedEntry:
    """A text and its terms, which are computed outside the database's thread because that takes most of the time."""

    text: str
    terms: frozenset[str]
    length: int
    """Number of words, or of the terms closest to words."""

    @classmethod
    def from_text(cls, text: str, more: str = "") -> IndexedEntry:
        """`more` is searchable too, but is not part of the text."""
        found = frozenset(extract_terms(f"{text}\n{more}" if more else text))
        return cls(text, found, max(1, sum(term[0] in _LENGTH_KINDS for term in found)))

    @property
    def checksum(self) -> int:
        return zlib.crc32(" ".join(sorted(self.terms)).encode())


def add_entry(
    connection: sqlite3.Connection, scope: int, indexed: IndexedEntry, at: int, source_id: str = "", line: int = 0
) -> int:
    """Store an entry and index it. Return its id."""
    row = connection.execute(
        _INSERT, (scope, indexed.text, indexed.length, indexed.checksum, at, source_id, line)
    ).fetchone()
    add_to_index(connection, scope, row[0], indexed)
    return row[0]


def delete_entry(connection: sqlite3.Connection, scope: int, entry: int, indexed: IndexedEntry) -> None:
    """Delete an entry; `indexed` must have the terms that it was added with."""
    remove_from_index(connection, scope, entry, indexed)
    vectors.delete_vector(connection, scope, entry)
    connection.execute("DELETE FROM memory_entries WHERE id = ?", (entry,))


def reindex_entry(
    connection: sqlite3.Connection, scope: int, entry: int, before: IndexedEntry, after: IndexedEntry
) -> None:
    """Replace the terms of an entry."""
    remove_from_index(connection, scope, entry, before)
    connection.execute(
        "UPDATE memory_entries SET length = ?, mark = ? WHERE id = ?", (after.length, after.checksum, entry)
    )
    add_to_index(connection, scope, entry, after)


def entries_of_source(connection: sqlite3.Connection, scope: int, source_id: str) -> list[sqlite3.Row]:
    """Return the id, text and line of the entries of a source."""
    return connection.execute(_OF_SOURCE, (scope, source_id)).fetchall()


def add_to_index(connection: sqlite3.Connection, scope: int, entry: int, indexed: IndexedEntry) -> None:
    """Index a stored entry that is not indexed yet."""
    stream = _scoped_terms(scope, indexed.terms)
    connection.execute("INSERT INTO memory_index (rowid, terms) VALUES (?, ?)", (entry, stream))
    connection.executemany(
        "INSERT INTO memory_terms VALUES (?, ?, 1) ON CONFLICT DO UPDATE SET entries = entries + 1",
        [(scope, term) for term in sorted(indexed.terms)],
    )
    _adjust_counts(connection, scope, 1, indexed.length)


def remove_from_index(connection: sqlite3.Connection, scope: int, entry: int, indexed: IndexedEntry) -> None:
    """Remove a stored entry from the index."""
    row = connection.execute("SELECT length, mark FROM memory_entries WHERE id = ?", (entry,)).fetchone()
    _adjust_counts(connection, scope, -1, -row["length"])
    if row["mark"] != indexed.checksum:
        return
    stream = _scoped_terms(scope, indexed.terms)
    connection.execute("INSERT INTO memory_index (memory_index, rowid, terms) VALUES ('delete', ?, ?)", (entry, stream))
    mine = [(scope, term) for term in sorted(indexed.terms)]
    connection.executemany("UPDATE memory_terms SET entries = entries - 1 WHERE scope = ? AND term = ?", mine)
    connection.executemany("DELETE FROM memory_terms WHERE scope = ? AND term = ? AND entries <= 0", mine)


def count_entries(connection: sqlite3.Connection, scopes: Sequence[Scope], term: str) -> dict[int, int]:
    """Return how many entries of each scope have a term, without the scopes that have none."""
    asked = ((one.id, connection.execute(_COUNTED, (one.id, term)).fetchone()) for one in scopes)
    return {scope: row[0] for scope, row in asked if row is not None}


def match_expression(scopes: Iterable[int], term: str) -> str:
    """Return the FTS5 expression that matches a term in these scopes."""
    return " OR ".join(f'"{scope}{term}"' for scope in scopes)


def matching_entries(connection: sqlite3.Connection, matching: str, limit: int) -> list[int]:
    """Return the entries that match an expression, latest first."""
    cursor = connection.cursor()
    cursor.row_factory = None  # for thousands of rows, plain tuples are faster
    return [entry for (entry,) in cursor.execute(_ENTRIES, (matching, limit))]


_INSERT = (
    "INSERT INTO memory_entries (scope, text, length, mark, at, place, line) VALUES (?, ?, ?, ?, ?, ?, ?) RETURNING id"
)
_OF_SOURCE = "SELECT id, text, line FROM memory_entries WHERE scope = ? AND place = ? AND place != '' ORDER BY id"
_COUNTED = "SELECT entries FROM memory_terms WHERE scope = ? AND term = ?"
_ENTRIES = "SELECT rowid FROM memory_index WHERE memory_index MATCH ? ORDER BY rowid DESC LIMIT ?"


def _scoped_terms(scope: int, found: Iterable[str]) -> str:
    return " ".join(f"{scope}{term}" for term in sorted(found))


def _adjust_counts(connection: sqlite3.Connection, scope: int, entries: int, length: int) -> None:
    connection.execute(
        "UPDATE memory_scopes SET entries = entries + ?, length = length + ? WHERE id = ?", (entries, length, scope)
    )
