"""What was typed before, in a file that only its owner can read."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from prompt_toolkit.history import FileHistory, History, InMemoryHistory, ThreadedHistory

MAX_BYTES = 1024 * 1024
KEPT_BYTES = MAX_BYTES // 2


def open_history(path: Path | None) -> History:
    """Return the history of a file, which is made if there is none. Without a path, or where the file cannot be used,
    it is kept in memory."""
    if path is None:
        return InMemoryHistory()
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            os.fchmod(file, 0o600)
            if os.fstat(file).st_size > MAX_BYTES:
                _forget_oldest(file)
        finally:
            os.close(file)
    except OSError:
        return InMemoryHistory()
    return ThreadedHistory(_Messages(str(path)))


class _Messages(FileHistory):
    """A disk that is full does not end the chat."""

    def store_string(self, string: str) -> None:
        try:
            super().store_string(string)
        except OSError:
            return

    def load_history_strings(self) -> Iterable[str]:
        try:
            return list(super().load_history_strings())
        except OSError:
            return ()


def _forget_oldest(file: int) -> None:
    os.lseek(file, -KEPT_BYTES, os.SEEK_END)
    _, _, kept = os.read(file, KEPT_BYTES).partition(b"\n\n")
    os.ftruncate(file, 0)
    os.pwrite(file, kept, 0)
