"""What a turn costs does not grow with the conversation behind it."""

from __future__ import annotations

import asyncio
import sqlite3
import statistics
import threading
from pathlib import Path

from tests.unit.loop.compaction.long_conversations import Calls, Says, Stage, Talker, say
from tests.unit.loop.support import PATIENCE, World


class Steps:
    """Counts the steps of SQLite's machine, on every connection of a database: each row that is read takes some."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._count = 0

    async def watch(self, world: World) -> None:
        both = threading.Barrier(2)

        def reader(connection: sqlite3.Connection) -> None:
            both.wait(PATIENCE)  # two at once: each reader has a connection of its own
            self._hear(connection)

        await asyncio.gather(world.database.read(reader), world.database.read(reader))
        for durable in (True, False):
            await world.database.write(
                lambda connection: connection.set_progress_handler(self._one, 1), durable=durable
            )

    def _hear(self, connection: sqlite3.Connection) -> None:
        connection.set_progress_handler(self._one, 1)

    def _one(self) -> None:
        with self._lock:
            self._count += 1

    def taken(self) -> int:
        with self._lock:
            taken, self._count = self._count, 0
        return taken


async def test_a_turn_reads_as_many_rows_after_two_hundred_as_after_ten(tmp_path: Path) -> None:
    stage, steps = Stage(Talker()), Steps()
    async with stage.open(tmp_path, window=10_000_000) as world:
        taken: dict[int, list[int]] = {10: [], 200: []}
        await say(stage)
        await steps.watch(world)
        for turn in range(2, 206):
            steps.taken()
            await say(stage, 30, Calls((("read", 20),)), Says(20))
            await world.database.write(lambda _: None)  # what is on its way to the disk counts
            for stop, found in taken.items():
                if stop - 5 <= turn <= stop + 5:
                    found.append(steps.taken())
    early, late = statistics.median(taken[10]), statistics.median(taken[200])
    assert early > 100
    assert late <= early * 1.05, taken
