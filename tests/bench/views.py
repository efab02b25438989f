"""What it costs to read back what the model sees of a long session: with compactions in it and without."""

from __future__ import annotations

import sqlite3
import statistics
import tempfile
import time
from pathlib import Path

from agent_runtime.context import read_view
from agent_runtime.sessions import MIGRATIONS, Ids, Marker, MessageRow, NewSession, markers, rows
from agent_runtime.store import Database
from agent_testing import ManualClock

from .load import Samples
from .stored import write_turn
from .targets import Live

TURNS, COMPACTIONS = 300, 10
_WORDS = "lorem ipsum dolor sit amet " * 18  # two of these are about one KiB
_BEGAN = 1_700_000_000_000
_KEPT = 2
"""Turns that a compaction leaves as they are."""


async def reading_back(_live: Live, _provider: str, turns: int = TURNS) -> Samples:
    """Milliseconds, and how much of the time of the whole session is left with compactions."""
    with tempfile.TemporaryDirectory(prefix="bench-") as data:
        database = Database(Path(data) / "agent.db", MIGRATIONS)
        database.open()
        try:
            ids = Ids(ManualClock(_BEGAN))
            whole, compacted = ids.new("ses"), ids.new("ses")
            await database.write(lambda connection: _fill(connection, ids, whole, turns, turns + 1), durable=True)
            every = turns // COMPACTIONS
            await database.write(lambda connection: _fill(connection, ids, compacted, turns, every), durable=True)
            taken = {
                name: await database.read(lambda connection, session=session: _taken(connection, session))
                for name, session in (("whole", whole), ("compacted", compacted))
            }
        finally:
            database.close()
    share = statistics.median(taken["compacted"]) / statistics.median(taken["whole"])
    return {**taken, "share": [share]}


def _fill(connection: sqlite3.Connection, ids: Ids, session: str, turns: int, every: int) -> None:
    """A session of turns of about one KiB, compacted after every so many of them."""
    rows.insert_session(connection, NewSession(session, "operator", "default", "/", "default", "", "", ()), _BEGAN)
    asked: list[str] = []
    for turn in range(1, turns + 1):
        asked.append(write_turn(connection, ids, session, (f"{turn} {_WORDS}", f"{turn} {_WORDS}"), _BEGAN + turn * 2))
        if turn % every == 0:
            marker = Marker(_WORDS * 8, 1000, auto=True, tail_start_id=asked[-_KEPT])
            row = MessageRow(ids.new("msg"), session, "assistant", {}, _BEGAN + turn * 2 + 1, _BEGAN)
            markers.insert(connection, row, ids.new("prt"), marker)


def _taken(connection: sqlite3.Connection, session: str) -> list[float]:
    if len(read_view(connection, session, "").messages) < 2 * _KEPT:
        raise RuntimeError("the view is empty")
    return [_once(connection, session) for _ in range(12)][1:]  # the first one fills the caches


def _once(connection: sqlite3.Connection, session: str) -> float:
    begun = time.perf_counter()
    read_view(connection, session, "")
    return (time.perf_counter() - begun) * 1000
