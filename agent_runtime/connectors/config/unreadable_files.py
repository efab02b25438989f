"""What a local server was given to read and its user may not, each with its fix."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path


def find_unreadable(given: Iterable[tuple[str, Path]], uid: int | None, *, by_path: bool) -> Iterator[str]:
    """Name each path that is closed to the user of local servers, with the field it was given in. Reads the disk.

    `uid`: None is the runtime's own user. `by_path`: nothing is mounted, and every folder on the way must be open too.
    """
    user = os.geteuid() if uid is None else uid
    for field, path in given:
        for place in (*reversed(path.parents if by_path else ()), path):
            lacking = _missing_rights(place, user, "x" if place != path else "rx" if path.is_dir() else "r")
            if lacking:
                fix = f"run chmod o+{lacking} {place}, or give it to that user"
                yield f"{field}: {place} is closed to user {user}, whom servers run as; {fix}"
                break


def _missing_rights(path: Path, user: int, wanted: str) -> str:
    """The rights of `wanted` that this user, who is in no other group than its own, does not have."""
    try:
        found = path.stat()
    except OSError:  # that it is not there is told elsewhere
        return ""
    if user == 0:
        return ""
    shift = 6 if found.st_uid == user else 3 if found.st_gid == user else 0
    rights = stat.S_IMODE(found.st_mode) >> shift
    return "".join(one for one in wanted if not rights & {"r": 4, "x": 1}[one])
