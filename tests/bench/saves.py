"""What it costs to save a stream: the recorder on a real database, with nothing around it."""

from __future__ import annotations

import asyncio
import sqlite3
import tempfile
import time
from pathlib import Path

from agent_common.protocol import chunks as c
from agent_runtime.sessions import MIGRATIONS, Ids, MessageRow, NewSession, Recorder, rows
from agent_runtime.sessions.record.recorder import FLUSH_SECONDS
from agent_runtime.store import Database
from agent_testing import ManualClock

from .load import Samples
from .targets import Live

CHUNKS = 2000
TOGETHER = 10
"""Chunks to a flush when a model says two hundred in a second, as a flush comes every 50 ms."""


async def saving(_live: Live, _provider: str, chunks: int = CHUNKS) -> Samples:
    """CPU of this process per chunk, the writer's thread included, and bytes handed to the kernel: with all chunks at
    once, and with a flush for every ten. The last save waits for the disk, as at the end of a turn."""
    samples: Samples = {"once": [], "paced": [], "written": []}
    with tempfile.TemporaryDirectory(prefix="bench-") as data:
        database = Database(Path(data) / "agent.db", MIGRATIONS)
        database.open()
        try:
            for run in range(5):
                once, _ = await _save(database, chunks, together=chunks)
                paced, written = await _save(database, chunks, together=TOGETHER)
                if run:  # the first one prepares statements and makes the file grow
                    samples["once"].append(once)
                    samples["paced"].append(paced)
                    samples["written"].append(written)
        finally:
            database.close()
    return samples


async def _save(database: Database, chunks: int, together: int) -> tuple[float, float]:
    """Microseconds of CPU and bytes, per chunk."""
    clock = ManualClock()
    ids = Ids(clock)
    session, message = ids.new("ses"), ids.new("msg")
    await database.write(lambda connection: _begin(connection, session))
    recorder = Recorder(database, ids, clock, MessageRow(message, session, "assistant", {}, 1, 1))
    said = [c.TextDelta(id="text", delta="word ") for _ in range(chunks)]
    cpu, written = time.process_time(), _written()
    recorder.record(c.TextStart(id="text"))
    for number, chunk in enumerate(said, 1):
        recorder.record(chunk)
        if number % together == 0 and number < chunks:
            clock.advance(FLUSH_SECONDS)  # rows that did not change cost less, and time always does
            recorder.flush()
            if recorder._pending_flush is not None:
                await asyncio.wait([recorder._pending_flush])
    recorder.record(c.TextEnd(id="text"))
    await recorder.save()
    return (time.process_time() - cpu) / chunks * 1e6, (_written() - written) / chunks


def _begin(connection: sqlite3.Connection, session: str) -> None:
    rows.insert_session(connection, NewSession(session, "operator", "default", "/", "default", "", "", ()), 1)


def _written() -> int:
    """Bytes that this process has given to write calls so far (Linux)."""
    counters = dict(line.split(": ") for line in Path("/proc/self/io").read_text("ascii").splitlines())
    return int(counters["wchar"])
