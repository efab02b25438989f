"""One `agent up` after the other, so that two of them start one host, and one agent for a folder."""

from __future__ import annotations

import asyncio
import fcntl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from time import monotonic
from typing import BinaryIO

from ..errors import CliError
from ..private_file import private

LOCK_NAME = "up.lock"
SECONDS = 200.0
"""A start of an agent may take three minutes."""
_POLL_SECONDS = 0.05


@asynccontextmanager
async def one_at_a_time(data: Path) -> AsyncGenerator[None]:
    """Hold the lock in the host's data folder. Raises CliError if another command holds it for too long."""
    file = _open(data / LOCK_NAME)
    deadline = monotonic() + SECONDS
    with file:
        while not _taken(file.fileno()):
            if monotonic() > deadline:
                raise CliError(
                    f"another `agent up` has held {data / LOCK_NAME} for {SECONDS:g} s", "end it, then try again"
                )
            await asyncio.sleep(_POLL_SECONDS)
        yield


def _open(path: Path) -> BinaryIO:
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        return open(path, "wb", opener=private)
    except OSError as error:
        raise CliError(f"{path}: cannot be written: {error.strerror}", "MESH_DATA_DIR names another folder") from error


def _taken(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
