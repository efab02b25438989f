"""Store the output of a guest in files of limited size, so that it cannot fill the host's disk."""

from __future__ import annotations

import asyncio
import contextlib
import os
from contextlib import ExitStack
from pathlib import Path

MOST_BYTES = 1 << 20
"""Most bytes of one file. The previous file is kept beside it."""
_PIECE = 1 << 16


class Console:
    """The output of one guest: reads its output until it ends, and writes it to the file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._tasks: list[asyncio.Task[None]] = []
        self._connections = ExitStack()

    def begin(self) -> None:
        """Start a new file, because the machine starts. Without this call the file is continued."""
        self._rotate()

    def follow(self, reader: asyncio.StreamReader) -> None:
        """Write what the reader receives, until it ends."""
        self._tasks.append(asyncio.create_task(self._read(reader), name=f"console-{self.path}"))

    async def follow_pipe(self, descriptor: int) -> None:
        """Write what comes out of a pipe. Its descriptor is closed by `close`, as a process that the guest has left
        behind may hold the other end for ever."""
        reader = asyncio.StreamReader()
        pipe = os.fdopen(descriptor, "rb", 0)
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), pipe
        )
        self._connections.callback(transport.close)
        self.follow(reader)

    async def connect(self, socket: Path) -> None:
        """Write what a socket of the machine sends, until the machine closes it. Raises OSError."""
        reader, writer = await asyncio.open_unix_connection(socket)
        self._connections.callback(writer.close)
        self.follow(reader)

    async def close(self) -> None:
        """Write the last output. Call after the machine has ended."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=2)
        for task in self._tasks:
            task.cancel()
        self._connections.close()

    def read_tail(self, max_bytes: int, *, this_run: bool = False) -> str:
        """Return the last output as text; that of the previous run if there is none yet, and unless `this_run`."""
        found = b""
        for path in (self.path,) if this_run else (self._previous_path, self.path):
            try:
                with path.open("rb") as file:
                    file.seek(max(0, file.seek(0, os.SEEK_END) - max_bytes))
                    found += file.read(max_bytes)
            except FileNotFoundError:
                continue
        return found[-max_bytes:].decode("utf-8", "replace")

    @property
    def _previous_path(self) -> Path:
        return self.path.with_name(f"{self.path.name}.1")

    def _rotate(self) -> None:
        if self.path.exists():
            self.path.replace(self._previous_path)

    async def _read(self, reader: asyncio.StreamReader) -> None:
        with contextlib.suppress(ConnectionError):  # a machine that is killed may reset its socket
            while data := await reader.read(_PIECE):
                await asyncio.sleep(0)  # a file may wait: the answer that came together with a line about it does not
                self._write(data)

    def _write(self, data: bytes) -> None:
        file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)
        try:
            if os.fstat(file).st_size + len(data) <= MOST_BYTES:
                os.write(file, data)
                return
        finally:
            os.close(file)
        self._rotate()
        self.path.write_bytes(data)
