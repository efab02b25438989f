"""The folders of the workspace in which the runtime keeps copies of files. Tools may read but not change them.

An agent that may not read a file may not read a copy of it either, so each copy is traced to its original.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from .principal_paths import BACKUPS

SKILL_HISTORY = (".agents", "skill-history")
COPIES = (BACKUPS, SKILL_HISTORY)


def folder_of_copies(parts: Sequence[str]) -> str | None:
    """Return the folder of copies that contains a path, given relative to the workspace; None if none does."""
    return next(("/".join(folder) for folder in COPIES if tuple(parts[: len(folder)]) == folder), None)


def originals(path: str, workspace: Path, skills: Path | None) -> tuple[str, ...]:
    """Return the paths of which an absolute path may be a copy, or a folder of copies: `.backups/PATH/TIME` and
    `.agents/skill-history/NAME/VERSION`. It works on plain strings, because searches return thousands of paths."""
    backups = f"{workspace}/{'/'.join(BACKUPS)}/"
    history = f"{workspace}/{'/'.join(SKILL_HISTORY)}/"
    if path.startswith(backups):
        whole = path.removeprefix(backups)
        above = whole.rpartition("/")[0]
        return tuple(f"{workspace}/{one}" for one in (whole, above) if one)
    if path.startswith(history) and skills is not None:
        return (f"{skills}/{path.removeprefix(history).partition('/')[0]}.py",)
    return ()
