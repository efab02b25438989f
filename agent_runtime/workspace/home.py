"""Where an agent keeps what is its own."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from agent_common.telemetry import logger

from ..errors import StartError, StoreError
from ..sandbox import READERS_ID
from .ownership import SkippedFiles, chown_tree

TRAVERSE_MODE = 0o711
"""The mode of a folder through which others may go to places that they know."""
WALK_SECONDS = 300.0
SPARES = 8
"""Empty folders kept for the scratch of new sessions: a disk without room for more files can still be cleaned up."""
SESSION_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")

log = logger(__name__)


@dataclass(frozen=True, slots=True)
class Home:
    """The folders and files under the data directory. Only the workspace and a session's scratch are for commands."""

    data_dir: Path
    owner: int | None = None
    """User and group that commands run as, and who therefore owns what they may write; none: the server's own."""

    workspace: Path = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "data_dir", self.data_dir.expanduser().resolve())
        object.__setattr__(self, "workspace", self.data_dir / "workspace")

    @property
    def skills(self) -> Path:
        return self.data_dir / "skills"

    @property
    def staged(self) -> Path:
        """Builds of skills, for their workers to read; made by the server and emptied at start."""
        return self.data_dir / "staged"

    @property
    def skill_environments(self) -> Path:
        """Installed dependencies of skills, for their workers to read."""
        return self.data_dir / "skill-environments"

    @property
    def agents(self) -> Path:
        """Manifests; no tool can write here."""
        return self.data_dir / "agents"

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
        own = (self.data_dir, self.workspace, self.data_dir / "scratch", self.skills, self.agents)
        # Builds are read by a user who does not own them; the data directory above keeps others out.
        modes = {**dict.fromkeys(own, 0o700), self.staged: 0o755, self.skill_environments: 0o755}
        for folder in (self.workspace, self.data_dir / "scratch", self.staged):
            if folder.is_symlink():  # what is in them is given away, and deleted
                raise StartError(f"the folder {folder} is a link, which is not followed: mount there what it leads to")
        for folder, mode in modes.items():
            try:
                folder.mkdir(mode=mode, parents=True, exist_ok=True)
                if folder.stat().st_mode & 0o777 == TRAVERSE_MODE:  # commands were held otherwise in the last life
                    folder.chmod(mode)
            except OSError as error:
                raise StartError(f"AGENT_DATA_DIR: the folder {folder} cannot be created: {error.strerror}") from error
            if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
                raise StartError(f"the folder {folder} cannot be written by user {os.geteuid()}: mend its permissions")
        self._make_spares()

    def with_owner(self, uid: int | None, *, by_path: bool = False) -> Home:
        """This home with its workspace and scratch in the hands of that user. Raises StartError when it cannot be.
        Files with a second name, which may lie anywhere, keep their owner.

        `by_path` lets that user walk through the data folder to what is its own; all else stays closed to it.
        """
        if uid is not None:
            try:
                left = SkippedFiles()
                for folder in (self.workspace, *self._scratches(uid)):
                    chown_tree(folder, uid, left)
                if left.count:
                    log.warning(
                        "files were not given to the user of commands",
                        why="they are devices, or have a second name (hard link), which may lie outside",
                        fix="replace them by copies, as git clone --no-hardlinks makes them",
                        **asdict(left),
                    )
                if by_path:
                    self._allow_traversal()
            except OSError as error:
                raise StartError(f"the workspace cannot be given to user {uid}: {error}") from error
        return replace(self, owner=uid)

    def _allow_traversal(self) -> None:
        os.umask(0o027)  # from here on what the server writes is closed to others as well
        theirs = (self.workspace, self.data_dir / "scratch", self.staged)
        for entry in self.data_dir.iterdir():
            if entry not in theirs and not entry.is_symlink():
                entry.chmod(entry.stat().st_mode & 0o700)
        os.chown(self.staged, -1, READERS_ID)
        self.staged.chmod(0o2750)
        for folder in (self.data_dir / "scratch", self.data_dir):
            folder.chmod(TRAVERSE_MODE)

    def _scratches(self, uid: int) -> list[Path]:
        """Those that belong to somebody else, after a change of how commands are held."""
        return [folder for folder in (self.data_dir / "scratch").iterdir() if folder.lstat().st_uid != uid]

    def make_scratch(self, session_id: str) -> Path:
        """Create the session's scratch if need be and return it. Raises StoreError if the disk has no room for it."""
        folder = self.scratch(session_id)
        if not folder.is_dir():
            try:
                folder.mkdir(mode=0o700, exist_ok=True)
                self._make_spares()
            except OSError as error:
                if not self._use_spare(folder):
                    raise StoreError(f"the scratch folder of the session cannot be made: {error.strerror}") from error
            if self.owner is not None:
                os.chown(folder, self.owner, self.owner)
        return folder

    def _spare(self, number: int) -> Path:
        return self.data_dir / "spare-scratch" / str(number)

    def _make_spares(self) -> None:
        """Make those that are missing, as far as there is room. They are taken from the last to the first."""
        with contextlib.suppress(OSError):
            self._spare(0).parent.mkdir(mode=0o700, exist_ok=True)
            for number in range(SPARES if not self._spare(SPARES - 1).is_dir() else 0):
                self._spare(number).mkdir(mode=0o700, exist_ok=True)

    def _use_spare(self, folder: Path) -> bool:
        """Give a spare folder another name, for which no room is needed. False when none is left."""
        for number in reversed(range(SPARES)):
            with contextlib.suppress(OSError):
                self._spare(number).rename(folder)
                return True
        return False

    def remove_scratch(self, session_id: str) -> None:
        """Deletes the session's scratch: links are removed, what they point to is left alone. Raises OSError.

        By a program: Python's own walk calls itself for every level, so that a tree of a thousand folders ends it.
        """
        command = ("rm", "-rf", self.scratch(session_id))
        try:
            subprocess.run(command, check=True, capture_output=True, text=True, timeout=WALK_SECONDS)
        except (OSError, subprocess.SubprocessError) as error:
            reason = getattr(error, "stderr", None) or str(error)
            raise OSError(str(reason).strip()) from error
