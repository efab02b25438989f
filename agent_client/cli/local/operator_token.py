"""The operator's token of a host on this machine, in a file that only its owner can read."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from ..contexts import read_token
from .kept_files import keep_file


def operator_token_file(folder: Path) -> Path:
    """Return where `agent up` keeps the token, which is also where `agent-host token operator --keep` does."""
    named = os.environ.get("MESH_ADMIN_TOKEN_FILE")
    return Path(named).expanduser() if named else folder / "tokens" / "operator"


def ensure_operator_token(folder: Path) -> Path:
    """Return the file of the token, made if it is missing. A token of MESH_ADMIN_TOKEN is written there. Raises
    CliError."""
    path = operator_token_file(folder)
    named = os.environ.get("MESH_ADMIN_TOKEN")
    if named and "MESH_ADMIN_TOKEN_FILE" not in os.environ:
        keep_file(path, f"{named}\n")
    elif not path.exists():
        keep_file(path, f"{secrets.token_urlsafe(32)}\n")
    read_token(str(path))
    return path
