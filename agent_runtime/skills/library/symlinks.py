"""Where a path leads, however many links somebody has laid on its way."""

from __future__ import annotations

import os
from pathlib import Path

MAX_STEPS = 128
"""Folders and links on the way. Python's own `realpath` knows no bound: it can be kept busy for minutes."""


class TooFar(Exception):
    """The path leads through more folders and links than any honest one."""


def is_below(path: Path, root: Path) -> bool:
    """Whether a path lies in a folder, or is it. As `is_relative_to`, in a tenth of its time."""
    return path.parts[: len(root.parts)] == root.parts


def resolve_links(path: Path) -> tuple[Path, int]:
    """Where an absolute path leads, and in how many steps. What is not there, or cannot be looked at, leads to itself.
    Raises TooFar."""
    here, steps, ahead = "/", 0, list(reversed(str(path).split("/")))
    while ahead:
        part = ahead.pop()
        if part in ("", "."):
            continue
        steps += 1
        if steps > MAX_STEPS:
            raise TooFar
        if part == "..":
            here = os.path.dirname(here)
            continue
        there = os.path.join(here, part)
        try:
            target = os.readlink(there)
        except (OSError, ValueError):  # it is no link, or nothing at all
            here = there
            continue
        here = "/" if target.startswith("/") else here
        ahead.extend(reversed(target.split("/")))
    return Path(here), steps
