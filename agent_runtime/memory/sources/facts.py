"""Facts that were saved for later sessions. Each function is a unit of work or a part of one."""

from __future__ import annotations

import json
import secrets
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ...errors import ToolFailure
from ..index import index
from ..index.index import IndexedEntry
from ..index.schema import make_scope
from ..text.sanitize import digest
from .use_count import UseCount

MAX_FACTS = 100_000
"""Facts of one principal."""
MAX_TAGS = 8
USE_PAUSE = 3_600_000
"""Milliseconds after a use in which further ones do not count, since they are often the same search again."""


@dataclass(frozen=True, slots=True)
class FactDraft:
    """A fact to be saved; its text is clean."""

    text: str
    principal: str
    session_id: str
    origin: str
    """Who saves it."""
    tags: tuple[str, ...] = ()

    def to_indexed(self) -> IndexedEntry:
        return IndexedEntry.from_text(self.text, " ".join(self.tags))


@dataclass(frozen=True, slots=True)
class Fact:
    """A stored fact without its text."""

    name: str
    tags_json: str
    origin: str
    uses: UseCount

    @classmethod
    def from_row(cls, row: sqlite3.Row) -> Fact:
        return cls(row["name"], row["tags_json"], row["origin"], UseCount(row["uses"], row["used_at"]))

    @property
    def tags(self) -> tuple[str, ...]:
        return tuple(json.loads(self.tags_json))  # noqa: TID251  our own row


@dataclass(frozen=True, slots=True)
class _Stored:
    """A fact with its entry and scope."""

    entry: int
    scope: int
    text: str
    fact: Fact

    def to_indexed(self) -> IndexedEntry:
        return IndexedEntry.from_text(self.text, " ".join(self.fact.tags))


def save_fact(
    connection: sqlite3.Connection, draft: FactDraft, indexed: IndexedEntry, now: int, max_facts: int = MAX_FACTS
) -> tuple[str, bool]:
    """Store a fact, or confirm the one with the same text. Return its name, and whether it was known. `indexed` has the
    draft's terms. Raises ToolFailure if there are too many."""
    scope = make_scope(connection, "fact", draft.principal)
    same = digest(draft.text)
    known = _find_one(connection, "f.scope = ? AND f.digest = ?", (scope.id, same))
    if known is not None:
        _confirm(connection, known, draft, now)
        return known.fact.name, True
    if scope.entries >= max_facts:
        raise ToolFailure(
            f"there are {max_facts} facts already: forget some that are not needed any more", kind="invalid"
        )
    entry = index.add_entry(connection, scope.id, indexed, now)
    name = f"mem_{secrets.token_hex(8)}"
    connection.execute(
        "INSERT INTO memory_facts (entry, scope, name, digest, tags_json, origin, session_id, created_at)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (entry, scope.id, name, same, json.dumps(draft.tags), draft.origin, draft.session_id, now),
    )
    return name, False


def delete_fact(connection: sqlite3.Connection, principal: str, name: str) -> str | None:
    """Delete a principal's fact and return its text; None if the principal has no such fact."""
    known = _find_one(connection, "f.name = ? AND s.principal = ?", (name, principal))
    if known is None:
        return None
    connection.execute("DELETE FROM memory_facts WHERE entry = ?", (known.entry,))
    index.delete_entry(connection, known.scope, known.entry, known.to_indexed())
    return known.text


def record_use(connection: sqlite3.Connection, entries: Sequence[int], now: int) -> None:
    """Count that a search has found facts."""
    for entry in entries:
        known = _find_one(connection, "f.entry = ?", (entry,))
        if known is not None and now - known.fact.uses.at >= USE_PAUSE:
            _set_uses(connection, entry, known.fact.uses.add_use(now))


def _confirm(connection: sqlite3.Connection, known: _Stored, draft: FactDraft, now: int) -> None:
    """Make a fact that was saved again as fresh as a new one, and add the new tags."""
    tags = tuple(dict.fromkeys((*known.fact.tags, *draft.tags)))[:MAX_TAGS]
    if tags != known.fact.tags:
        more = replace(known, fact=replace(known.fact, tags_json=json.dumps(tags))).to_indexed()
        index.reindex_entry(connection, known.scope, known.entry, known.to_indexed(), more)
        connection.execute("UPDATE memory_facts SET tags_json = ? WHERE entry = ?", (json.dumps(tags), known.entry))
    connection.execute("UPDATE memory_entries SET at = ? WHERE id = ?", (now, known.entry))
    _set_uses(connection, known.entry, known.fact.uses.add_use(now))


def _set_uses(connection: sqlite3.Connection, entry: int, uses: UseCount) -> None:
    connection.execute("UPDATE memory_facts SET uses = ?, used_at = ? WHERE entry = ?", (uses.count, uses.at, entry))


def _find_one(connection: sqlite3.Connection, condition: str, values: tuple[object, ...]) -> _Stored | None:
    row = connection.execute(f"{_FACT} WHERE {condition}", values).fetchone()  # conditions are constants of this file
    return _Stored(row["entry"], row["scope"], row["text"], Fact.from_row(row)) if row is not None else None


_FACT = (
    "SELECT f.*, e.text FROM memory_facts f JOIN memory_entries e ON e.id = f.entry"
    " JOIN memory_scopes s ON s.id = f.scope"
)
