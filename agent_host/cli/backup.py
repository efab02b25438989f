"""`agent-host backup`: a copy of what the host knows, while it runs."""

from __future__ import annotations

import errno
import os
import re
import shutil
import time
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from agent_common import disk

from ..errors import StartError
from ..settings import HostSettings, load_settings

_NAME = re.compile(r"mesh-\d{8}T\d{6}Z")
_DRAFT = ".{}.partial"
_DAY_SECONDS = 86_400
"""Age after which a partial backup cannot be one that is being made."""


def backup(
    folder: Annotated[Path | None, typer.Argument(help="A new folder; unset, one in {MESH_DATA_DIR}/backups.")] = None,
    keep: Annotated[int, typer.Option(min=1, help="How many are kept in {MESH_DATA_DIR}/backups.")] = 7,
) -> None:
    """Copy the host's database, artifacts and token files into a new folder, and print its path. A host may run.

    The data of agents is not in it: their runtimes make backups of their own.
    """
    settings = load_settings()
    target = folder.absolute() if folder else _next_folder(settings.data_dir / "backups")
    try:
        _back_up(settings, target)
        if folder is None:
            _prune(target.parent, keep)
    except OSError as error:
        raise StartError(f"no backup was made: {error.strerror}: {error.filename}") from error
    print(target)


def _next_folder(backups: Path) -> Path:
    return backups / f"mesh-{datetime.now(UTC):%Y%m%dT%H%M%SZ}"


def _back_up(settings: HostSettings, target: Path) -> None:
    """Make the folder under another name, and rename it once it is complete, checked and on the disk."""
    from ..database import copy_sqlite, sqlite_file

    database = sqlite_file(settings.database)
    if database is None:
        raise StartError("no backup was made: MESH_DATABASE_URL names another engine; use its own, such as pg_dump")
    if not database.is_file():
        raise StartError(f"no backup was made: there is no database at {database}")
    if target.exists():
        raise StartError(f"no backup was made: {target} exists already; name a folder that does not")
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = target.with_name(_DRAFT.format(target.name))
    shutil.rmtree(draft, ignore_errors=True)  # of a process that was killed
    draft.mkdir(mode=0o700)
    try:
        artifacts = settings.data_dir / "artifacts"
        _add_artifacts(artifacts, draft / "artifacts")  # those that are deleted before the database is copied
        copy_sqlite(database, draft / "mesh.db")
        _add_artifacts(artifacts, draft / "artifacts")  # those that came meanwhile
        _copy_tokens(settings.data_dir / "tokens", draft / "tokens")
        for made in (draft / "artifacts", draft / "tokens", draft):
            disk.sync(made)
        draft.rename(target)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    disk.sync(target.parent)


def _add_artifacts(source: Path, target: Path) -> None:
    """Add the files of artifacts that are not there yet. They never change, so on one file system a link is a copy."""
    target.mkdir(mode=0o700, exist_ok=True)
    for path in source.glob("art_*") if source.is_dir() else ():
        if path.suffix or (target / path.name).exists():
            continue  # not whole yet, or added before
        with suppress(FileNotFoundError):  # deleted meanwhile
            try:
                os.link(path, target / path.name)
            except OSError as error:
                if error.errno not in (errno.EXDEV, errno.EPERM, errno.EMLINK):
                    raise
                _copy(path, target / path.name)


def _copy_tokens(source: Path, target: Path) -> None:
    """Copy the files of `agent-host token ID --keep`, each readable only by its owner."""
    target.mkdir(mode=0o700)
    for path in sorted(source.iterdir()) if source.is_dir() else ():
        if path.is_file() and not path.is_symlink() and not path.name.endswith(".new"):
            _copy(path, target / path.name)


def _copy(source: Path, target: Path) -> None:
    with source.open("rb") as given:
        copied = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(copied, "wb") as file:
            shutil.copyfileobj(given, file)
            file.flush()
            os.fsync(copied)


def _prune(backups: Path, keep: int) -> None:
    """Delete all but the newest backups, and what killed processes have left; other files in the folder stay."""
    found = sorted(path for path in backups.iterdir() if _NAME.fullmatch(path.name))
    abandoned = [path for path in backups.glob(_DRAFT.format("*")) if time.time() - path.stat().st_mtime > _DAY_SECONDS]
    for old in (*found[:-keep], *abandoned):
        shutil.rmtree(old)
