"""Find paths that a local server was given to read but whose permissions exclude its user."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path


def find_unreadable(given: Iterable[tuple[str, Path]], uid: int | None, *, by_path: bool) -> Iterator[str]:
    """Yield a fault for each path that the user of local servers cannot read, with its field and a fix. Reads the disk.

    `uid`: None means the runtime's own user. `by_path`: nothing is mounted, so the parent folders must be accessible
    too.
    """
    user = os.geteuid() if uid is None else uid
    for field, path in given:
        for current in (*reversed(path.parents if by_path else ()), path):
            lacking = _missing_rights(current, user, "x" if current != path else "rx" if path.is_dir() else "r")
            if lacking:
                fix = f"run chmod o+{lacking} {current}, or give it to that user"
                yield f"{field}: {current} is closed to user {user}, whom servers run as; {fix}"
                break


def _missing_rights(path: Path, user: int, wanted: str) -> str:
    """Return the rights in `wanted` that the user lacks. The user is only in its own group."""
    try:
        found = path.stat()
    except OSError:  # missing files are reported elsewhere
        return ""
    if user == 0:
        return ""
    shift = 6 if found.st_uid == user else 3 if found.st_gid == user else 0
    rights = stat.S_IMODE(found.st_mode) >> shift
    return "".join(one for one in wanted if not rights & {"r": 4, "x": 1}[one])
