"""The tables of memory: the entries, the index over them, and the number of entries with each term.

Every entry belongs to a scope: one kind of entries, of one principal or shared by all. Each term in the index begins
with the id of its scope, and terms are counted per scope, so that no answer depends on other principals' entries.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from typing import Literal

from ...store import Migration

Kind = Literal["fact", "file", "session"]
KINDS: tuple[Kind, ...] = ("fact", "file", "session")
_TABLES = (
    """
    CREATE TABLE memory_scopes (
      id INTEGER PRIMARY KEY,
      kind TEXT NOT NULL CHECK (kind IN ('fact', 'file', 'session')),
      principal TEXT,
      entries INTEGER NOT NULL DEFAULT 0,
      length INTEGER NOT NULL DEFAULT 0
    )
    """,
    "CREATE UNIQUE INDEX memory_scopes_own ON memory_scopes (kind, principal) WHERE principal IS NOT NULL",
    "CREATE UNIQUE INDEX memory_scopes_shared ON memory_scopes (kind) WHERE principal IS NULL",
    """
    CREATE TABLE memory_entries (
      id INTEGER PRIMARY KEY AUTOINCREMENT,
      scope INTEGER NOT NULL REFERENCES memory_scopes (id),
      text TEXT NOT NULL,
      length INTEGER NOT NULL,
      mark INTEGER NOT NULL,
      at INTEGER NOT NULL,
      place TEXT NOT NULL DEFAULT '',
      line INTEGER NOT NULL DEFAULT 0
    )
    """,
    "CREATE INDEX memory_entries_place ON memory_entries (scope, place) WHERE place != ''",
    """
    CREATE TABLE memory_facts (
      entry INTEGER PRIMARY KEY REFERENCES memory_entries (id) ON DELETE CASCADE,
      scope INTEGER NOT NULL,
      name TEXT NOT NULL UNIQUE,
      digest BLOB NOT NULL,
      tags_json TEXT NOT NULL,
      origin TEXT NOT NULL,
      session_id TEXT NOT NULL,
      created_at INTEGER NOT NULL,
      uses REAL NOT NULL DEFAULT 0,
      used_at INTEGER NOT NULL DEFAULT 0,
      UNIQUE (scope, digest)
    )
    """,
    """
    CREATE TABLE memory_terms (
      scope INTEGER NOT NULL,
      term TEXT NOT NULL,
      entries INTEGER NOT NULL,
      PRIMARY KEY (scope, term)
    ) WITHOUT ROWID
    """,
    "CREATE TABLE memory_state (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID",
    "CREATE TABLE memory_unsettled (message INTEGER PRIMARY KEY)",
    """
    CREATE TABLE memory_files (
      scope INTEGER NOT NULL REFERENCES memory_scopes (id),
      path TEXT NOT NULL,
      signature TEXT NOT NULL,
      PRIMARY KEY (scope, path)
    ) WITHOUT ROWID
    """,
    # The index keeps no texts, positions or sizes: ranking uses the counts in memory_terms.
    "CREATE VIRTUAL TABLE memory_index USING fts5 (terms, content='', detail='none', columnsize=0, tokenize='ascii')",
)


@dataclass(frozen=True, slots=True)
class Scope:
    """One kind of entries, of one principal or shared by all."""

    id: int
    kind: Kind
    entries: int
    length: int
    """Sum of the entries' lengths."""


def find_scope(connection: sqlite3.Connection, kind: Kind, principal: str | None) -> Scope | None:
    """Return a scope; None if it was never made. `principal` None means the shared one."""
    row = connection.execute(
        "SELECT id, kind, entries, length FROM memory_scopes WHERE kind = ? AND principal IS ?", (kind, principal)
    ).fetchone()
    return Scope(*row) if row is not None else None


def make_scope(connection: sqlite3.Connection, kind: Kind, principal: str | None) -> Scope:
    """Return a scope, and make it if there is none."""
    connection.execute("INSERT OR IGNORE INTO memory_scopes (kind, principal) VALUES (?, ?)", (kind, principal))
    made = find_scope(connection, kind, principal)
    assert made is not None  # noqa: S101  it was just inserted
    return made


def get_state(connection: sqlite3.Connection, name: str) -> str | None:
    """Return a stored state by its name; None if there is none."""
    row = connection.execute("SELECT value FROM memory_state WHERE name = ?", (name,)).fetchone()
    return row[0] if row is not None else None


def set_state(connection: sqlite3.Connection, name: str, value: str) -> None:
    connection.execute("INSERT OR REPLACE INTO memory_state VALUES (?, ?)", (name, value))


def _create_tables(connection: sqlite3.Connection) -> None:
    for statement in _TABLES:
        connection.execute(statement)


def _create_vectors(connection: sqlite3.Connection) -> None:
    connection.execute(
        "CREATE TABLE memory_signs (scope INTEGER NOT NULL, entry INTEGER NOT NULL, bits BLOB NOT NULL,"
        " PRIMARY KEY (scope, entry)) WITHOUT ROWID"
    )
    connection.execute("CREATE TABLE memory_vectors (entry INTEGER PRIMARY KEY, numbers BLOB NOT NULL)")


MIGRATIONS = (Migration(6, "memory", _create_tables), Migration(7, "vectors of memory", _create_vectors))
