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

from ...sessions import spoken_messages as said
from ...store import Database
from ..index import index
from ..index.index import IndexedEntry
from ..index.schema import make_scope, set_state, state
from ..text import passages
from ..text.sanitize import clean

AT_ONCE = 20
"""Messages that are read together."""
MOST_AGAIN = 200
"""Unsettled messages that are asked for again at a time: whichever, so that each has its turn."""
MOST_PASSAGES = 64
"""Of one message."""
IN_A_UNIT = 8
"""Passages that are stored together: other writes wait behind them."""
MOST_KEPT = 50_000
"""Passages of a principal; beyond them the oldest go."""
_REACHED = "sessions"
"""The name of the state: the row of the message that was reached."""


@dataclass(frozen=True, slots=True)
class _Round:
    """What is to be done next."""

    batch: said.SpokenBatch
    again: list[int]
    """Messages that were unsettled the last time."""
    reached: int


@dataclass(frozen=True, slots=True)
class _Prepared:
    """A message, taken apart."""

    said: said.SpokenMessage
    passages: list[IndexedEntry]


class SessionIndexer:
    """Takes in what was said. `step` as often as there is something."""

    def __init__(self, database: Database, secrets: Sequence[str] = (), *, most: int = MOST_KEPT) -> None:
        self._database, self._secrets, self._most = database, tuple(secrets), most

    async def step(self) -> bool:
        """Takes in some messages; whether there may be more. Raises StoreError."""
        todo = await self._database.read(_next_round)
        prepared = await asyncio.to_thread(self._prepare, todo.batch.said)
        for message in prepared:
            await self._store(message)
        await self._note(todo)
        return todo.batch.more

    def _prepare(self, messages: Iterable[said.SpokenMessage]) -> list[_Prepared]:
        return [
            _Prepared(one, [IndexedEntry.of(text) for text in self._texts(one.text)]) for one in messages if one.text
        ]

    def _texts(self, text: str) -> Iterator[str]:
        for passage in itertools.islice(passages.of_text(text), MOST_PASSAGES):
            if kept := clean(passage.text, self._secrets):
                yield kept

    async def _store(self, message: _Prepared) -> None:
        """In units of a bounded size; the first one takes away what a life has left that died in between."""
        one, parts = message.said, message.passages

        def begin(connection: sqlite3.Connection) -> int | None:
            if not said.is_kept(connection, one.message_id):
                return None
            scope = make_scope(connection, "session", one.principal)
            for row in index.at_place(connection, scope.id, one.message_id):
                index.drop(connection, scope.id, row["id"], IndexedEntry.of(row["text"]))
            _drop_oldest(connection, scope.id, scope.entries + len(parts) - self._most)
            return scope.id

        scope = await self._database.write(begin)
        if scope is None:
            return
        for start in range(0, len(parts), IN_A_UNIT):
            some = parts[start : start + IN_A_UNIT]
            await self._database.write(lambda connection, some=some: _add(connection, scope, one, some))

    async def forget(self, message_ids: Sequence[str]) -> None:
        """Takes what was said in messages out of the index, before they are deleted. Raises StoreError."""
        found = await self._database.read(
            lambda connection: connection.execute(_SAID, (json.dumps(list(message_ids)),)).fetchall()
        )
        for start in range(0, len(found), IN_A_UNIT):
            some = found[start : start + IN_A_UNIT]
            gone = await asyncio.to_thread(_with_terms, some)
            await self._database.write(lambda connection, gone=gone: _drop(connection, gone))

    async def _note(self, todo: _Round) -> None:
        """What was reached, and what is to be asked for again. Where nothing is new nothing is written."""
        settled = set(todo.again) - set(todo.batch.unsettled)
        new = set(todo.batch.unsettled) - set(todo.again)

        def note(connection: sqlite3.Connection) -> None:
            connection.executemany("DELETE FROM memory_unsettled WHERE message = ?", [(row,) for row in settled])
            connection.executemany("INSERT OR IGNORE INTO memory_unsettled VALUES (?)", [(row,) for row in new])
            set_state(connection, _REACHED, str(todo.batch.last))

        if settled or new or todo.batch.last > todo.reached:
            await self._database.write(note)


def _next_round(connection: sqlite3.Connection) -> _Round:
    reached = int(state(connection, _REACHED) or 0)
    rows = connection.execute("SELECT message FROM memory_unsettled ORDER BY random() LIMIT ?", (MOST_AGAIN,))
    again = [row[0] for row in rows]
    return _Round(said.said(connection, reached, AT_ONCE, again), again, reached)


def _add(connection: sqlite3.Connection, scope: int, message: said.SpokenMessage, some: Sequence[IndexedEntry]) -> None:
    if not said.is_kept(connection, message.message_id):
        return
    for what in some:
        index.add(connection, scope, what, message.at, message.message_id)


def _with_terms(entries: Sequence[sqlite3.Row]) -> list[tuple[sqlite3.Row, IndexedEntry]]:
    return [(row, IndexedEntry.of(row["text"])) for row in entries]


def _drop(connection: sqlite3.Connection, gone: Sequence[tuple[sqlite3.Row, IndexedEntry]]) -> None:
    for row, what in gone:
        if connection.execute("SELECT 1 FROM memory_entries WHERE id = ?", (row["id"],)).fetchone():
            index.drop(connection, row["scope"], row["id"], what)


def _drop_oldest(connection: sqlite3.Connection, scope: int, many: int) -> None:
    if many > 0:
        for row in connection.execute(_OLDEST, (scope, many)).fetchall():
            index.drop(connection, scope, row["id"], IndexedEntry.of(row["text"]))


_SAID = """
SELECT e.id, e.scope, e.text FROM json_each(?) asked
JOIN chat_messages m ON m.id = asked.value
JOIN chat_sessions s ON s.id = m.session_id
JOIN memory_scopes o ON o.kind = 'session' AND o.principal = json_extract(s.metadata_json, '$.principal')
JOIN memory_entries e ON e.scope = o.id AND e.place = m.id AND e.place != ''
"""
_OLDEST = "SELECT id, text FROM memory_entries WHERE scope = ? ORDER BY id LIMIT ?"
