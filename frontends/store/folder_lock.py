"""One process of bots for a folder: a second one would answer everything twice."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from agent_common.errors import StartError

LOCK_NAME = "bots.lock"


@contextmanager
def locked_folder(folder: Path) -> Generator[None]:
    """Hold the lock of the folder, made if it is missing. It ends with the process. Raises StartError that names the
    process which has it."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = os.open(folder / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise StartError(f"BOTS_DATA_DIR: cannot write to {folder}: {error.strerror}") from error
    try:
        _take(lock, folder)
        yield
    finally:
        os.close(lock)


def _take(lock: int, folder: Path) -> None:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.read(lock, 20).decode(errors="replace").strip() or "unknown"
        fix = "stop it, or name another folder with BOTS_DATA_DIR"
        raise StartError(f"{folder}: another `agent bots` uses this folder, process {holder}; {fix}") from None
    os.truncate(lock, 0)
    os.write(lock, f"{os.getpid()}\n".encode())
