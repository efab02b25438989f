"""Tell which paths an operator may name without the agent deciding where they lead."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

MAX_STEPS = 400
"""Names on the way of a path, those of links included; a way that is longer is not trusted."""


def is_changeable(path: Path, roots: Sequence[Path]) -> bool:
    """Return whether a path lies below one of the roots, or leads through them by a link on its way: whoever can write
    there decides what it is. Reads the disk."""
    inside = {*roots, *(root.resolve() for root in roots)}
    return any(step is None or any(root in step.parents for root in inside) for step in _steps(path))


def _steps(path: Path) -> Iterator[Path | None]:
    """Yield all that is passed on the way of an absolute path, one name at a time; None if the way does not end."""
    at = Path("/")
    left = [part for part in reversed(path.parts) if part != "/"]
    for _ in range(MAX_STEPS):
        if not left:
            return
        name = left.pop()
        if name == "..":
            at = at.parent
            continue
        at /= name
        yield at
        try:
            target = at.readlink()
        except OSError:  # it is no link, or does not exist
            continue
        left.extend(part for part in reversed(target.parts) if part != "/")
        at = Path("/") if target.is_absolute() else at.parent
    yield None
