"""Index the messages of sessions, when there is a search or the server is idle.

Turns are not delayed: messages are read in the order in which they were stored, from the last indexed one on. Messages
of unfinished turns are recorded and read again later. Messages that are taken back, or archived with their session,
stay in the index and are left out of every answer.

After a crash: progress is recorded once a batch is stored, so the next process indexes that batch's messages again.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from agent_common.redaction import Redactor

from ...sessions import spoken_messages
from ...store import Database
from ..index import index
from ..index.index import IndexedEntry
from ..index.schema import get_state, make_scope, set_state
from ..text import passages
from ..text.sanitize import clean

BATCH_SIZE = 20
"""Messages that are read at a time."""
MAX_RETRIED = 200
"""Messages of unfinished turns that are read again at a time, chosen at random so that each has its turn."""
MAX_PASSAGES = 64
"""Passages of one message."""
PASSAGES_PER_WRITE = 8
"""Passages that are stored in one transaction, for which other writes wait."""
MAX_KEPT = 50_000
"""Passages of a principal; beyond them the oldest are deleted."""
_PROGRESS_KEY = "sessions"
"""Name of the stored state: the row of the last indexed message."""


@dataclass(frozen=True, slots=True)
class _NextBatch:
    """The messages to index next."""

    batch: spoken_messages.SpokenBatch
    again: list[int]
    """Messages whose turns were unfinished the last time."""
    reached: int


@dataclass(frozen=True, slots=True)
class _Prepared:
    """A message and the terms of its passages."""

    message: spoken_messages.SpokenMessage
    passages: list[IndexedEntry]


class SessionIndexer:
    """Indexes messages. Call `index_batch` until it returns False."""

    def __init__(self, database: Database, redactor: Redactor, *, max_passages: int = MAX_KEPT) -> None:
        self._database = database
        self._redactor = redactor
        self._max_passages = max_passages

    async def index_batch(self) -> bool:
        """Index some messages. Return whether there may be more. Raises StoreError."""
        todo = await self._database.read(_next_batch)
        prepared = await asyncio.to_thread(self._prepare, todo.batch.messages)
        for message in prepared:
            await self._store(message)
        await self._save_progress(todo)
        return todo.batch.more

    def _prepare(self, messages: Iterable[spoken_messages.SpokenMessage]) -> list[_Prepared]:
        return [
            _Prepared(one, [IndexedEntry.from_text(text) for text in self._passages(one.text)])
            for one in messages
            if one.text
        ]

    def _passages(self, text: str) -> Iterator[str]:
        for passage in itertools.islice(passages.split_text(text), MAX_PASSAGES):
            if kept := clean(passage.text, self._redactor):
                yield kept

    async def _store(self, message: _Prepared) -> None:
        """Store a message in units of bounded size; the first one deletes what a crashed process has left of it."""
        one = message.message
        parts = message.passages

        def begin(connection: sqlite3.Connection) -> int | None:
            if not spoken_messages.is_kept(connection, one.message_id):
                return None
            scope = make_scope(connection, "session", one.principal)
            for row in index.entries_of_source(connection, scope.id, one.message_id):
                index.delete_entry(connection, scope.id, row["id"], IndexedEntry.from_text(row["text"]))
            _delete_oldest(connection, scope.id, scope.entries + len(parts) - self._max_passages)
            return scope.id

        scope = await self._database.write(begin)
        if scope is None:
            return
        for start in range(0, len(parts), PASSAGES_PER_WRITE):
            some = parts[start : start + PASSAGES_PER_WRITE]
            await self._database.write(lambda connection, some=some: _add_passages(connection, scope, one, some))

    async def forget_messages(self, message_ids: Sequence[str]) -> None:
        """Remove messages from the index before they are deleted. Raises StoreError."""
        found = await self._database.read(
            lambda connection: connection.execute(_ENTRIES_OF_MESSAGES, (json.dumps(list(message_ids)),)).fetchall()
        )
        for start in range(0, len(found), PASSAGES_PER_WRITE):
            some = found[start : start + PASSAGES_PER_WRITE]
            gone = await asyncio.to_thread(_indexed_entries, some)
            await self._database.write(lambda connection, gone=gone: _delete_entries(connection, gone))

    async def _save_progress(self, todo: _NextBatch) -> None:
        """Store how far the index is, and which messages to read again; write nothing if nothing is new."""
        completed = set(todo.again) - set(todo.batch.unfinished)
        new = set(todo.batch.unfinished) - set(todo.again)

        def note(connection: sqlite3.Connection) -> None:
            connection.executemany("DELETE FROM memory_unsettled WHERE message = ?", [(row,) for row in completed])
            connection.executemany("INSERT OR IGNORE INTO memory_unsettled VALUES (?)", [(row,) for row in new])
            set_state(connection, _PROGRESS_KEY, str(todo.batch.last))

        if completed or new or todo.batch.last > todo.reached:
            await self._database.write(note)


def _next_batch(connection: sqlite3.Connection) -> _NextBatch:
    reached = int(get_state(connection, _PROGRESS_KEY) or 0)
    rows = connection.execute("SELECT message FROM memory_unsettled ORDER BY random() LIMIT ?", (MAX_RETRIED,))
    again = [row[0] for row in rows]
    return _NextBatch(spoken_messages.read_batch(connection, reached, BATCH_SIZE, again), again, reached)


def _add_passages(
    connection: sqlite3.Connection, scope: int, message: spoken_messages.SpokenMessage, some: Sequence[IndexedEntry]
) -> None:
    if not spoken_messages.is_kept(connection, message.message_id):
        return
    for what in some:
        index.add_entry(connection, scope, what, message.created_at, message.message_id)


def _indexed_entries(entries: Sequence[sqlite3.Row]) -> list[tuple[sqlite3.Row, IndexedEntry]]:
    return [(row, IndexedEntry.from_text(row["text"])) for row in entries]


def _delete_entries(connection: sqlite3.Connection, gone: Sequence[tuple[sqlite3.Row, IndexedEntry]]) -> None:
    for row, what in gone:
        if connection.execute("SELECT 1 FROM memory_entries WHERE id = ?", (row["id"],)).fetchone():
            index.delete_entry(connection, row["scope"], row["id"], what)


def _delete_oldest(connection: sqlite3.Connection, scope: int, many: int) -> None:
    if many > 0:
        for row in connection.execute(_OLDEST, (scope, many)).fetchall():
            index.delete_entry(connection, scope, row["id"], IndexedEntry.from_text(row["text"]))


_ENTRIES_OF_MESSAGES = """
SELECT e.id, e.scope, e.text FROM json_each(?) asked
JOIN chat_messages m ON m.id = asked.value
JOIN chat_sessions s ON s.id = m.session_id
JOIN memory_scopes o ON o.kind = 'session' AND o.principal = json_extract(s.metadata_json, '$.principal')
JOIN memory_entries e ON e.scope = o.id AND e.place = m.id AND e.place != ''
"""
_OLDEST = "SELECT id, text FROM memory_entries WHERE scope = ? ORDER BY id LIMIT ?"
