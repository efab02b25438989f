"""Whether a host runs on this machine for this user: it holds a lock in its data folder, and writes there who it is."""

from __future__ import annotations

import fcntl
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .errors import CliError

LOCK_NAME = "host.lock"
_LONGEST = 4096


@dataclass(frozen=True, slots=True)
class RunningHost:
    """The host that holds the lock."""

    pid: int
    url: str


def data_dir() -> Path:
    """Return the host's data folder, as the host itself finds it."""
    named = os.environ.get("MESH_DATA_DIR")
    return Path(named).expanduser().absolute() if named else Path.home() / ".local/share/agent-mesh"


def is_locked(folder: Path) -> bool:
    """Whether a host uses the data folder. Raises CliError if that cannot be known."""
    path = folder / LOCK_NAME
    try:
        lock = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise CliError(f"{path}: cannot be opened: {error.strerror}", f"is {folder} yours?") from error
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(lock)
    return False


def running_host(folder: Path) -> RunningHost | None:
    """Return the host that uses the data folder; None if there is none, or if it has not opened its port yet. Raises
    CliError."""
    if not is_locked(folder):
        return None
    try:
        with (folder / LOCK_NAME).open("rb") as file:
            known: Any = json.loads(file.read(_LONGEST))  # noqa: TID251  our own file
        return RunningHost(int(known["pid"]), str(known["url"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None
