"""The folders of the workspace in which the runtime keeps copies of files. Tools read them and change nothing there.

Who may not read a file may not read a copy of it either, so each copy is known by the file that it was made of.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from .principal_paths import BACKUPS

SKILL_HISTORY = (".agents", "skill-history")
COPIES = (BACKUPS, SKILL_HISTORY)


def folder_of_copies(parts: Sequence[str]) -> str | None:
    """The folder of copies that a path below the workspace leads into; none when it leads elsewhere."""
    return next(("/".join(folder) for folder in COPIES if tuple(parts[: len(folder)]) == folder), None)


def originals(path: str, workspace: Path, skills: Path | None) -> tuple[str, ...]:
    """What an absolute path may be a copy of, or a folder of copies of: `.backups/PATH/TIME` and
    `.agents/skill-history/NAME/VERSION`. Texts, because the results of a search are thousands of paths."""
    backups, history = f"{workspace}/{'/'.join(BACKUPS)}/", f"{workspace}/{'/'.join(SKILL_HISTORY)}/"
    if path.startswith(backups):
        whole = path.removeprefix(backups)
        above = whole.rpartition("/")[0]
        return tuple(f"{workspace}/{one}" for one in (whole, above) if one)
    if path.startswith(history) and skills is not None:
        return (f"{skills}/{path.removeprefix(history).partition('/')[0]}.py",)
    return ()
