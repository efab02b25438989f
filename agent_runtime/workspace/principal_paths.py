"""Whose a file is. Most of the workspace is everybody's; a few paths mean something else for each principal.

The operator's own files lie in the workspace itself. Those of anybody else lie beside it, in a folder of the data
directory that no tool and no command reaches, under a name that says nothing.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from ..errors import ToolFailure
from .home import Home
from .safe_path import SafePath

OPERATOR = "operator"
"""Who speaks when nobody is named."""
PRINCIPALS_FOLDER = "people"
PERSONAL_NAMES = frozenset({"USER.md", "memory"})
"""What every principal has for himself, at the top of the workspace."""
BACKUPS = (".backups",)
"""Copies of what was overwritten, below it by path: those of a personal file are personal too."""
MAX_PATH_BYTES = 4096
"""Bytes of a path."""


def personal_folder(home: Home, principal: str) -> Path:
    """The folder in which the files lie that are one principal's alone. It need not exist; see `own_folder`."""
    if principal == OPERATOR:
        return home.workspace
    name = hashlib.sha256(principal.encode(errors="surrogatepass")).hexdigest()[:32]
    return home.data_dir / PRINCIPALS_FOLDER / name


def make_personal_folder(home: Home, principal: str) -> Path:
    """The same, made if need be. Raises ToolFailure."""
    folder = personal_folder(home, principal)
    if principal != OPERATOR:
        try:
            for one in (folder.parent, folder):
                one.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            raise ToolFailure(f"your own files cannot be kept: {error.strerror}") from error
    return folder


def resolve_for_principal(home: Home, principal: str, path: str) -> SafePath:
    """Where a path leads for a principal. It has one spelling: relative, without `.` and `..`, no slash too many.

    Links are not resolved: a Place refuses those that it meets. Raises ToolFailure (`invalid`) that says what is wrong.
    """
    parts = split_path(path)
    root = personal_folder(home, principal) if is_personal(parts) else home.workspace
    return SafePath(root, root.joinpath(*parts), path)


def split_path(path: str) -> tuple[str, ...]:
    """The folders on the way and the name itself; none for the workspace. Raises ToolFailure."""
    if not path:
        return ()
    parts = tuple(path.split("/"))
    if path.startswith("/"):
        raise ToolFailure(f"path: {path[:200]!r} must be relative to the workspace", kind="invalid")
    if any(part in ("", ".", "..") for part in parts):
        raise ToolFailure(f"path: {path[:200]!r} must have no '.', '..' or empty part", kind="invalid")
    if "\0" in path or "\ufffd" in path or len(path.encode(errors="surrogateescape")) > MAX_PATH_BYTES:
        raise ToolFailure(f"path: must be UTF-8 without null bytes, at most {MAX_PATH_BYTES} bytes", kind="invalid")
    return parts


def is_personal(parts: tuple[str, ...]) -> bool:
    """Whether each principal has a file or folder of his own there."""
    if parts[: len(BACKUPS)] == BACKUPS:
        parts = parts[len(BACKUPS) :]
    return bool(parts) and parts[0] in PERSONAL_NAMES


def holds_personal(parts: tuple[str, ...]) -> bool:
    """Whether some of what lies directly in that folder is each principal's own."""
    return parts in ((), BACKUPS)
