"""The floor: bare asyncio, JSON lines over the same socket, echoed, with as many durable commits as a request costs us.

What of a request ours brings to the disk, each once, and in this order:

- host: admitted and sent (one write, for both are known at the same moment), accepted, recorded, read by its caller;
- guest: entered, ended, acknowledged.

For four of the seven somebody waits: the request goes out once it is admitted, `accepting` once it is entered, the
result once it has ended, the acknowledgement once it is recorded. The other three are written behind. So it is here:
the same seven writes, the same four that are waited for, the same four lines. Each end has a file of its own with
`synchronous=FULL` and a thread that commits, and what waits at the same moment shares a commit, as it does with us.

It validates nothing, keeps no trail of the frames, asks nobody who he is and has no deadlines; what it has when it dies
is lost. The loop is asyncio's own.
"""

from __future__ import annotations

import asyncio
import json
import queue
import sqlite3
import threading
import time
from itertools import count
from pathlib import Path
from typing import Any

from .host import CONTENT
from .programs import obey, run

SOCKET = "echo.sock"
_INSERT = "INSERT INTO work (id, line, status) VALUES (?, ?, ?)"
_UPDATE = "UPDATE work SET status = ?, result = ? WHERE id = ?"
_STATUS = "UPDATE work SET status = ? WHERE id = ?"
_Job = tuple[str, tuple[Any, ...], "asyncio.Future[None]"]


class Disk:
    """A thread that commits."""

    def __init__(self, path: Path) -> None:
        self._loop = asyncio.get_running_loop()
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._path = path
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def write(self, statement: str, values: tuple[Any, ...]) -> asyncio.Future[None]:
        """Done once it is on the disk."""
        future: asyncio.Future[None] = self._loop.create_future()
        self._jobs.put((statement, values, future))
        return future

    def close(self) -> None:
        self._jobs.put(None)
        self._thread.join()

    def _run(self) -> None:
        connection = sqlite3.connect(self._path, isolation_level=None)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("CREATE TABLE work (id TEXT PRIMARY KEY, line TEXT, status TEXT, result TEXT) WITHOUT ROWID")
        while (job := self._jobs.get()) is not None:
            batch = [job]
            while not self._jobs.empty() and (more := self._jobs.get()) is not None:
                batch.append(more)
            connection.execute("BEGIN")
            for statement, values, _ in batch:
                connection.execute(statement, values)
            connection.execute("COMMIT")
            self._loop.call_soon_threadsafe(_tell, [future for _, _, future in batch])
        connection.close()


def _tell(futures: list[asyncio.Future[None]]) -> None:
    for future in futures:
        future.set_result(None)


def _line(value: Any) -> bytes:
    return json.dumps(value).encode() + b"\n"


class Asker:
    """The host's part."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._numbers = count(1)
        self._waiting: dict[str, asyncio.Future[str]] = {}
        self._writer: asyncio.StreamWriter
        self._met = asyncio.Event()

    async def meet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writer = writer
        self._met.set()
        while line := await reader.readline():
            value = json.loads(line)
            if "accepting" in value:
                self._disk.write(_STATUS, ("accepted", value["accepting"]))
            else:
                self._waiting.pop(value["id"]).set_result(value["content"])

    async def attached(self) -> None:
        await self._met.wait()

    async def trips(self, total: int, flight: int) -> dict[str, Any]:
        """As those of our host."""
        left, took = iter(range(total)), list[float]()

        async def caller() -> None:
            for _ in left:
                began = time.perf_counter()
                await self._trip(f"bench-{next(self._numbers)}")
                took.append((time.perf_counter() - began) * 1000)

        began, cpu = time.perf_counter(), time.process_time()
        await asyncio.gather(*(caller() for _ in range(flight)))
        return {"seconds": time.perf_counter() - began, "took": took, "cpu": time.process_time() - cpu}

    async def _trip(self, name: str) -> None:
        line = _line({"id": name, "content": CONTENT})
        await self._disk.write(_INSERT, (name, line.decode(), "sent"))
        answer = self._waiting[name] = asyncio.get_running_loop().create_future()
        self._writer.write(line)
        await self._disk.write(_UPDATE, ("recorded", await answer, name))
        self._writer.write(_line({"ack": name}))
        self._disk.write(_STATUS, ("read", name))


async def asking(folder: Path) -> None:
    disk = Disk(folder / "asker.db")
    asker = Asker(disk)
    server = await asyncio.start_unix_server(asker.meet, str(folder / SOCKET))
    await obey("echo", folder, {"attached": asker.attached, "trips": asker.trips})
    server.close()
    disk.close()


async def echoing(folder: Path) -> None:
    """The guest's part: until the other one is gone."""
    disk = Disk(folder / "echo.db")
    reader, writer = await asyncio.open_unix_connection(str(folder / SOCKET))
    tasks: set[asyncio.Task[None]] = set()

    async def answer(value: dict[str, str], line: bytes) -> None:
        name, content = value["id"], value["content"]
        await disk.write(_INSERT, (name, line.decode(), "entered"))
        writer.write(_line({"accepting": name}))
        await disk.write(_UPDATE, ("ended", content, name))
        writer.write(_line(value))

    while line := await reader.readline():
        value = json.loads(line)
        if "ack" in value:
            disk.write(_STATUS, ("acknowledged", value["ack"]))
            continue
        task = asyncio.create_task(answer(value, line))
        tasks.add(task)
        task.add_done_callback(tasks.discard)
    disk.close()


async def main(folder: Path, part: str = "ask") -> None:
    await (asking(folder) if part == "ask" else echoing(folder))


if __name__ == "__main__":
    run(main, asyncio.new_event_loop)
