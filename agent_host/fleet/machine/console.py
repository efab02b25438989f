"""Store a machine's output in files of limited size, so that the guest cannot fill the host's disk."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

MOST_BYTES = 1 << 20
"""Most bytes of one file. The previous file is kept beside it."""
_PIECE = 1 << 16


class Console:
    """The console of one machine: reads its output until it ends, and writes it to the file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._task: asyncio.Task[None] | None = None

    def start(self, reader: asyncio.StreamReader) -> None:
        self._rotate()
        self._task = asyncio.create_task(self._read(reader), name=f"console-{self.path}")

    async def close(self) -> None:
        """Write the last output. Call after the machine has ended."""
        if self._task is not None:
            await asyncio.wait([self._task], timeout=2)
            self._task.cancel()

    def read_tail(self, max_bytes: int) -> str:
        """Return the last output as text; that of the previous run if there is none yet."""
        found = b""
        for path in (self._previous_path, self.path):
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
        written = 0
        while data := await reader.read(_PIECE):
            if written + len(data) > MOST_BYTES:
                self._rotate()
                written = 0
            with self.path.open("ab") as file:
                file.write(data)
            written += len(data)
