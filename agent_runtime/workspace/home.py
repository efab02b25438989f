"""Where an agent keeps what is its own."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ..errors import StartError

WALK_SECONDS = 300.0
AT_ONCE = 1000
"""Folders on one command line."""
SESSION_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


@dataclass(frozen=True, slots=True)
class Home:
    """The folders and files under the data directory. Only the workspace and a session's scratch are for commands."""

    data_dir: Path
    owner: int | None = None
    """User and group that commands run as, and who therefore owns what they may write; none: the server's own."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "data_dir", self.data_dir.expanduser().resolve())

    @property
    def workspace(self) -> Path:
        return self.data_dir / "workspace"

    @property
    def skills(self) -> Path:
        return self.data_dir / "skills"

    @property
    def database(self) -> Path:
        return self.data_dir / "agent.db"

    def scratch(self, session_id: str) -> Path:
        """The session's folder for temporary files and spilled output; `make_scratch` creates it."""
        if not SESSION_ID.fullmatch(session_id):
            raise ValueError(f"{session_id!r} cannot name a folder")
        return self.data_dir / "scratch" / session_id

    def prepare(self) -> None:
        """Creates the folders. Raises StartError that names the folder and the reason when one cannot be used."""
        # Skills are read by a user who does not own them; the data directory above keeps others out.
        modes = {self.data_dir: 0o700, self.workspace: 0o700, self.data_dir / "scratch": 0o700, self.skills: 0o755}
        for folder, mode in modes.items():
            try:
                folder.mkdir(mode=mode, parents=True, exist_ok=True)
            except OSError as error:
                raise StartError(f"the folder {folder} cannot be created: {error.strerror}") from error
            if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
                raise StartError(f"the folder {folder} cannot be written by user {os.geteuid()}: mend its permissions")

    def owned_by(self, uid: int | None) -> Home:
        """This home with its workspace and scratch in the hands of that user. Raises StartError when it cannot be."""
        if uid is not None:
            try:
                for folders in _batched((self.workspace, *self._scratches(uid))):
                    _whole_tree("chown", "-R", "-h", "-P", f"{uid}:{uid}", *folders)
            except OSError as error:
                raise StartError(f"the workspace cannot be given to user {uid}: {error}") from error
        return replace(self, owner=uid)

    def _scratches(self, uid: int) -> list[Path]:
        """Those that belong to somebody else, after a change of how commands are held."""
        return [folder for folder in (self.data_dir / "scratch").iterdir() if folder.lstat().st_uid != uid]

    def make_scratch(self, session_id: str) -> Path:
        """Creates the session's scratch if need be and returns it."""
        folder = self.scratch(session_id)
        if not folder.is_dir():
            folder.mkdir(mode=0o700, exist_ok=True)
            if self.owner is not None:
                os.chown(folder, self.owner, self.owner)
        return folder

    def remove_scratch(self, session_id: str) -> None:
        """Deletes the session's scratch: links are removed, what they point to is left alone. Raises OSError."""
        _whole_tree("rm", "-rf", self.scratch(session_id))


def _batched(folders: Sequence[Path]) -> Iterator[Sequence[Path]]:
    """In pieces that fit on a command line."""
    for start in range(0, len(folders), AT_ONCE):
        yield folders[start : start + AT_ONCE]


def _whole_tree(program: str, *arguments: str | Path) -> None:
    """Has a program of the system walk a tree that commands have made: it follows no links, and no depth stops it.

    Python's own walks call themselves for every level, so that a tree of a thousand folders ends them.
    """
    try:
        subprocess.run((program, *arguments), check=True, capture_output=True, text=True, timeout=WALK_SECONDS)
    except (OSError, subprocess.SubprocessError) as error:
        reason = getattr(error, "stderr", None) or str(error)
        raise OSError(str(reason).strip()) from error
