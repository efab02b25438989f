"""The index: which terms are in which entries of a scope. Each function is a part of a unit of work.

It keeps no texts. To take an entry out it must be told the very terms that were put in, or it takes itself for damaged.
They are worked out anew from the text, and a mark says whether they are the same: a Python with a newer Unicode may see
other letters. Then they stay behind, and lead nowhere.
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
"""Kinds of terms that are counted for the length of a text."""


@dataclass(frozen=True, slots=True)
class IndexedEntry:
    """A text, taken apart: made beside the database, for that is where the time goes."""

    text: str
    terms: frozenset[str]
    length: int
    """Words, or what comes next to words."""

    @classmethod
    def from_text(cls, text: str, more: str = "") -> IndexedEntry:
        """`more` is found too, and is not part of the text."""
        found = frozenset(extract_terms(f"{text}\n{more}" if more else text))
        return cls(text, found, max(1, sum(term[0] in _LENGTH_KINDS for term in found)))

    @property
    def checksum(self) -> int:
        return zlib.crc32(" ".join(sorted(self.terms)).encode())


def add_entry(
    connection: sqlite3.Connection, scope: int, indexed: IndexedEntry, at: int, source_id: str = "", line: int = 0
) -> int:
    """Stores an entry and makes it findable; its number."""
    row = connection.execute(
        _INSERT, (scope, indexed.text, indexed.length, indexed.checksum, at, source_id, line)
    ).fetchone()
    add_to_index(connection, scope, row[0], indexed)
    return row[0]


def delete_entry(connection: sqlite3.Connection, scope: int, entry: int, indexed: IndexedEntry) -> None:
    """Deletes an entry. It must be taken apart as it was when it was added."""
    remove_from_index(connection, scope, entry, indexed)
    vectors.delete_vector(connection, scope, entry)
    connection.execute("DELETE FROM memory_entries WHERE id = ?", (entry,))


def reindex_entry(
    connection: sqlite3.Connection, scope: int, entry: int, before: IndexedEntry, after: IndexedEntry
) -> None:
    """The same entry is found by something else from now on."""
    remove_from_index(connection, scope, entry, before)
    connection.execute(
        "UPDATE memory_entries SET length = ?, mark = ? WHERE id = ?", (after.length, after.checksum, entry)
    )
    add_to_index(connection, scope, entry, after)


def entries_of_source(connection: sqlite3.Connection, scope: int, source_id: str) -> list[sqlite3.Row]:
    """Number, text and line of the entries of one place."""
    return connection.execute(_OF_SOURCE, (scope, source_id)).fetchall()


def add_to_index(connection: sqlite3.Connection, scope: int, entry: int, indexed: IndexedEntry) -> None:
    """Puts an entry that is stored into the index, where it is not yet."""
    stream = _scoped_terms(scope, indexed.terms)
    connection.execute("INSERT INTO memory_index (rowid, terms) VALUES (?, ?)", (entry, stream))
    connection.executemany(
        "INSERT INTO memory_terms VALUES (?, ?, 1) ON CONFLICT DO UPDATE SET entries = entries + 1",
        [(scope, term) for term in sorted(indexed.terms)],
    )
    _adjust_counts(connection, scope, 1, indexed.length)


def remove_from_index(connection: sqlite3.Connection, scope: int, entry: int, indexed: IndexedEntry) -> None:
    """Takes an entry that is stored out of the index."""
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
    """How many entries of each scope have a term; nothing for those without."""
    asked = ((one.id, connection.execute(_COUNTED, (one.id, term)).fetchone()) for one in scopes)
    return {scope: row[0] for scope, row in asked if row is not None}


def match_expression(scopes: Iterable[int], term: str) -> str:
    """What is said to the index to find a term in these scopes."""
    return " OR ".join(f'"{scope}{term}"' for scope in scopes)


def matching_entries(connection: sqlite3.Connection, matching: str, limit: int) -> list[int]:
    """The entries that match, latest first."""
    cursor = connection.cursor()
    cursor.row_factory = None  # thousands of rows: plain tuples are made faster
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
