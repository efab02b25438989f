"""Map paths to principals. Most of the workspace is shared; a few paths name a different file for each principal.

The operator's personal files are among the agent's records: in the workspace itself, unless that is a folder of the
user. Those of others are in a folder of the data directory that no tool or command can reach, under a name that reveals
nothing.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from ..errors import ToolFailure
from .home import Home
from .safe_path import SafePath

OPERATOR = "operator"
"""The principal of a request that names none."""
PRINCIPALS_FOLDER = "people"
PERSONAL_NAMES = frozenset({"USER.md", "memory"})
"""Files and folders at the top of the workspace that every principal has of their own."""
BACKUPS = (".backups",)
"""Copies of overwritten files, by path below this folder. Those of personal files are personal too."""
MAX_PATH_BYTES = 4096
"""Maximum bytes of a path."""


def personal_folder(home: Home, principal: str) -> Path:
    """Return the folder of a principal's personal files. It may not exist; see `make_personal_folder`."""
    if principal == OPERATOR:
        return home.records
    name = hashlib.sha256(principal.encode(errors="surrogatepass")).hexdigest()[:32]
    return home.data_dir / PRINCIPALS_FOLDER / name


def make_personal_folder(home: Home, principal: str) -> Path:
    """Return the folder of a principal's personal files, creating it if needed. Raises ToolFailure."""
    folder = personal_folder(home, principal)
    if principal != OPERATOR:
        try:
            for one in (folder.parent, folder):
                one.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            raise ToolFailure(f"your own files cannot be stored: {error.strerror}") from error
    return folder


def resolve_for_principal(home: Home, principal: str, path: str) -> SafePath:
    """Return the file that a path names for a principal. A path has one spelling: relative, without `.`, `..` or extra
    slashes.

    Links are not resolved: SafePath refuses them. Raises ToolFailure (`invalid`) with the reason.
    """
    parts = split_path(path)
    return SafePath(root := root_for_principal(home, principal, parts), root.joinpath(*parts), path)


def root_for_principal(home: Home, principal: str, parts: tuple[str, ...]) -> Path:
    """Return the folder below which a path of a principal is."""
    if is_personal(parts):
        return personal_folder(home, principal)
    return home.records if parts[: len(BACKUPS)] == BACKUPS else home.workspace


def split_path(path: str) -> tuple[str, ...]:
    """Split a path into its parts; empty for the workspace itself. Raises ToolFailure."""
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
    """Return whether each principal has their own file or folder at this path."""
    if parts[: len(BACKUPS)] == BACKUPS:
        parts = parts[len(BACKUPS) :]
    return bool(parts) and parts[0] in PERSONAL_NAMES


def holds_personal(parts: tuple[str, ...]) -> bool:
    """Return whether the folder directly contains personal files or folders."""
    return parts in ((), BACKUPS)
