"""Checks of the files of this command and of the host on this machine."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from ..context_file import load_contexts
from ..errors import CliError
from ..local import data_dir
from .finding import Finding, error, ok, warning

_LEAST_BYTES = 100 << 20
_FEW_BYTES = 1 << 30
"""Below the first a database may fail; below the second it is time to look."""


def check_contexts() -> list[Finding]:
    """Whether the file of contexts, and the files of tokens that it names, can be read by their owner alone."""
    try:
        known = load_contexts()
    except CliError as failure:
        return [error("contexts", failure.message, failure.fix or "correct that")]
    named = (Path(one.token_file).expanduser() for one in known.contexts if one.token_file)
    faults = [fault for path in dict.fromkeys(named) if (fault := _token_fault(path))]
    if faults:
        return faults
    return [ok("contexts", f"{len(known.contexts)} known; current: {known.current or 'none'}")]


def _token_fault(path: Path) -> Finding | None:
    try:
        mode = path.stat().st_mode
    except OSError as failure:
        what = f"the token's file {path} cannot be read: {failure.strerror}"
        return error("contexts", what, "`agent up` writes that of the host here; for others `agent context add` again")
    if mode & 0o077:
        return error("contexts", f"other users can read the token's file {path}", f"chmod 600 {path}")
    return None


def check_data_dir() -> list[Finding]:
    """Whether a host on this machine can write its data, and has room for it."""
    folder = data_dir()
    there = next(
        path for path in (folder, *folder.parents) if os.path.exists(path)
    )  # Path.exists raises below a folder that is closed
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK) or _is_read_only(there):
        fix = f"chown or chmod {there}, or set MESH_DATA_DIR to another folder"
        return [error("data", f"{there} cannot be written, so a host cannot keep its data in {folder}", fix)]
    total, _, free = shutil.disk_usage(there)
    if total == 0:
        fix = "set HOME or MESH_DATA_DIR to a folder on a disk"
        return [error("data", f"{there} holds no files of users, so a host cannot keep its data in {folder}", fix)]
    what = f"{free / 2**30:.1f} GiB are free for {folder}"
    if free < _FEW_BYTES:
        level = error if free < _LEAST_BYTES else warning
        return [level("data", f"only {free / 2**20:.0f} MiB are free for {folder}", "make room on that disk")]
    return [ok("data", what)]


def _is_read_only(folder: Path) -> bool:
    return bool(os.statvfs(folder).f_flag & os.ST_RDONLY)
