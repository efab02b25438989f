"""Resolve symbolic links in a bounded number of steps."""

from __future__ import annotations

import os
from pathlib import Path

MAX_LINK_STEPS = 128
"""Folders and links on the way. `os.path.realpath` has no bound: hostile links can keep it busy for minutes."""


class TooFar(Exception):
    """The path leads through too many folders and links."""


def is_below(path: Path, root: Path) -> bool:
    """Return whether a path is in a folder, or is that folder: `is_relative_to`, ten times as fast."""
    return path.parts[: len(root.parts)] == root.parts


def resolve_links(path: Path, most: int = MAX_LINK_STEPS) -> tuple[Path, int]:
    """Return an absolute path with links resolved, and the number of steps. Parts that are missing or unreadable stay
    as they are. Raises TooFar after `most` steps."""
    here = "/"
    steps = 0
    ahead = list(reversed(str(path).split("/")))
    while ahead:
        part = ahead.pop()
        if part in ("", "."):
            continue
        steps += 1
        if steps > most:
            raise TooFar
        if part == "..":
            here = os.path.dirname(here)
            continue
        there = os.path.join(here, part)
        try:
            target = os.readlink(there)
        except (OSError, ValueError):  # not a link, or missing
            here = there
            continue
        here = "/" if target.startswith("/") else here
        ahead.extend(reversed(target.split("/")))
    return path if here == str(path) else Path(here), steps
