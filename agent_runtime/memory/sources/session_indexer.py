"""What was said in earlier sessions, taken into the index when somebody looks for it or nothing else is to be done.

Turns pay nothing for it: messages are read in the order in which they came to the database, from the one on that was
reached the last time. Those of turns that are not over are noted and asked for again. What is taken back later, or put
away with its session, stays in the index and is left out of every answer.

What if we die here: a message is marked as reached in the unit of work that stores its last passage, and the next life
begins that message anew.
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
"""Messages that are read together."""
MAX_RETRIED = 200
"""Unsettled messages that are asked for again at a time: whichever, so that each has its turn."""
MAX_PASSAGES = 64
"""Of one message."""
PASSAGES_PER_WRITE = 8
"""Passages that are stored together: other writes wait behind them."""
MAX_KEPT = 50_000
"""Passages of a principal; beyond them the oldest go."""
_PROGRESS_KEY = "sessions"
"""The name of the state: the row of the message that was reached."""


@dataclass(frozen=True, slots=True)
class _NextBatch:
    """What is to be done next."""

    batch: spoken_messages.SpokenBatch
    again: list[int]
    """Messages that were unsettled the last time."""
    reached: int


@dataclass(frozen=True, slots=True)
class _Prepared:
    """A message, taken apart."""

    message: spoken_messages.SpokenMessage
    passages: list[IndexedEntry]


class SessionIndexer:
    """Takes in what was spoken_messages. `index_batch` as often as there is something."""

    def __init__(self, database: Database, redactor: Redactor, *, max_passages: int = MAX_KEPT) -> None:
        self._database, self._redactor, self._max_passages = database, redactor, max_passages

    async def index_batch(self) -> bool:
        """Takes in some messages; whether there may be more. Raises StoreError."""
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
        """In units of a bounded size; the first one takes away what a life has left that died in between."""
        one, parts = message.message, message.passages

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
        """Takes what was said in messages out of the index, before they are deleted. Raises StoreError."""
        found = await self._database.read(
            lambda connection: connection.execute(_SAID, (json.dumps(list(message_ids)),)).fetchall()
        )
        for start in range(0, len(found), PASSAGES_PER_WRITE):
            some = found[start : start + PASSAGES_PER_WRITE]
            gone = await asyncio.to_thread(_indexed_entries, some)
            await self._database.write(lambda connection, gone=gone: _delete_entries(connection, gone))

    async def _save_progress(self, todo: _NextBatch) -> None:
        """What was reached, and what is to be asked for again. Where nothing is new nothing is written."""
        settled = set(todo.again) - set(todo.batch.unfinished)
        new = set(todo.batch.unfinished) - set(todo.again)

        def note(connection: sqlite3.Connection) -> None:
            connection.executemany("DELETE FROM memory_unsettled WHERE message = ?", [(row,) for row in settled])
            connection.executemany("INSERT OR IGNORE INTO memory_unsettled VALUES (?)", [(row,) for row in new])
            set_state(connection, _PROGRESS_KEY, str(todo.batch.last))

        if settled or new or todo.batch.last > todo.reached:
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


_SAID = """
SELECT e.id, e.scope, e.text FROM json_each(?) asked
JOIN chat_messages m ON m.id = asked.value
JOIN chat_sessions s ON s.id = m.session_id
JOIN memory_scopes o ON o.kind = 'session' AND o.principal = json_extract(s.metadata_json, '$.principal')
JOIN memory_entries e ON e.scope = o.id AND e.place = m.id AND e.place != ''
"""
_OLDEST = "SELECT id, text FROM memory_entries WHERE scope = ? ORDER BY id LIMIT ?"
