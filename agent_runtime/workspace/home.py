"""The directories of an agent."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from agent_common.telemetry import logger
from agent_common.user_folder import check_user_folder

from ..errors import StartError, StoreError
from ..sandbox import READERS_ID
from .ownership import SkippedFiles, chown_tree
from .user_access import grant_access

TRAVERSE_MODE = 0o711
"""Mode of a folder that others may pass through to paths that they know."""
WALK_SECONDS = 300.0
SPARES = 8
"""Empty folders kept as scratch of new sessions, so that a full disk can still be cleaned up by commands."""
SESSION_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")

log = logger(__name__)


@dataclass(frozen=True, slots=True)
class Home:
    """The folders and files below the data directory, and the workspace. Commands may use only the workspace and their
    session's scratch."""

    data_dir: Path
    owner: int | None = None
    """User and group that commands run as and that own the files which commands may write; None: the server's own."""
    user_folder: Path | None = None
    """A folder of the user that is the workspace; None: the workspace is below the data directory."""

    workspace: Path = field(init=False)
    records: Path = field(init=False)
    """The folder of what the runtime itself keeps: logs, learnings, backups. The same as the workspace, unless that is
    a folder of the user."""
    scratches: Path = field(init=False)
    """The folder of all sessions' scratch."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "data_dir", self.data_dir.expanduser().resolve())
        object.__setattr__(self, "records", self.data_dir / "workspace")
        object.__setattr__(self, "scratches", self.data_dir / "scratch")
        object.__setattr__(self, "workspace", self.user_folder.resolve() if self.user_folder else self.records)

    @property
    def skills(self) -> Path:
        return self.data_dir / "skills"

    @property
    def staged(self) -> Path:
        """The folder of staged skills, for their workers to read. The server fills it, and empties it at start."""
        return self.data_dir / "staged"

    @property
    def skill_environments(self) -> Path:
        """The folder of installed skill dependencies, for workers to read."""
        return self.data_dir / "skill-environments"

    @property
    def agents(self) -> Path:
        """The folder of manifests, in which no tool can write."""
        return self.data_dir / "agents"

    @property
    def database(self) -> Path:
        return self.data_dir / "agent.db"

    def scratch(self, session_id: str) -> Path:
        """Return the session's folder for temporary files and large outputs; `make_scratch` creates it."""
        if not SESSION_ID.fullmatch(session_id):
            raise ValueError(f"{session_id!r} cannot name a folder")
        return self.scratches / session_id

    def prepare(self) -> None:
        """Create the folders. Raises StartError with the folder and the reason if one is not usable."""
        if self.user_folder is not None:
            self._check_user_folder(self.user_folder)
        own = (self.data_dir, self.records, self.scratches, self.skills, self.agents)
        # Workers run as another user and read these folders; the data directory above them is closed to all others.
        modes = {**dict.fromkeys(own, 0o700), self.staged: 0o755, self.skill_environments: 0o755}
        _make_usable(self.data_dir, modes.pop(self.data_dir))
        for folder in (self.records, self.scratches, self.staged):
            if folder.is_symlink():  # their content is chowned and deleted
                raise StartError(
                    f"the folder {folder} is a link, and links are not followed: mount its target there instead"
                )
        for folder, mode in modes.items():
            _make_usable(folder, mode)
        self._make_spares()

    def _check_user_folder(self, folder: Path) -> None:
        try:
            check_user_folder(folder, apart_from=(self.data_dir,))
        except ValueError as error:
            raise StartError(f"AGENT_WORKSPACE_DIR: {error}") from None

    def with_owner(self, uid: int | None, *, by_path: bool = False) -> Home:
        """Return this home with the workspace and scratch folders owned by `uid`; None: unchanged. Raises StartError.
        Files with several hard links keep their owner, because another name may be outside. A folder of the user keeps
        its owner; `uid` may only use it too.

        `by_path` lets that user pass through the data directory to these folders; all else stays closed to it.
        """
        if uid is not None:
            try:
                left = SkippedFiles()
                for folder in (self.records, *self._scratches(uid)):
                    chown_tree(folder, uid, left)
                if left.count:
                    log.warning(
                        "some files still belong to another user than the one that runs commands",
                        why="they are devices, are mounted read-only, or have other hard links, which may be outside",
                        fix="replace hard links by copies, for example by git clone --no-hardlinks",
                        **asdict(left),
                    )
                if by_path:
                    self._allow_traversal()
                if self.user_folder is not None:
                    self._let_in(uid)
            except OSError as error:
                raise StartError(f"the workspace cannot be given to user {uid}: {error}") from error
        return replace(self, owner=uid)

    def _let_in(self, uid: int) -> None:
        """Let the user of commands into the folder of the user, which keeps its owner."""
        try:
            grant_access(self.workspace, uid)
        except OSError as error:
            log.warning(
                "commands cannot change files of the workspace",
                why=f"they run as user {uid}, and its file system has no access lists: {error.strerror}",
                fix="start the host as the user whom the folder belongs to, not as root",
            )

    def _allow_traversal(self) -> None:
        os.umask(0o027)  # from here on the server's new files are closed to others
        theirs = (self.records, self.scratches, self.staged)
        for entry in self.data_dir.iterdir():
            if entry not in theirs and not entry.is_symlink():
                entry.chmod(entry.stat().st_mode & 0o700)
        os.chown(self.staged, -1, READERS_ID)
        self.staged.chmod(0o2750)
        for folder in (self.scratches, self.data_dir):
            folder.chmod(TRAVERSE_MODE)

    def _scratches(self, uid: int) -> list[Path]:
        """Return the scratch folders that another user owns, after a change of the confinement."""
        return [folder for folder in self.scratches.iterdir() if folder.lstat().st_uid != uid]

    def make_scratch(self, session_id: str) -> Path:
        """Create the session's scratch if it is missing. Raises StoreError if the disk is full."""
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
        """Create the missing spare folders, as far as there is space. They are used from the last to the first."""
        with contextlib.suppress(OSError):
            self._spare(0).parent.mkdir(mode=0o700, exist_ok=True)
            for number in range(SPARES if not self._spare(SPARES - 1).is_dir() else 0):
                self._spare(number).mkdir(mode=0o700, exist_ok=True)

    def _use_spare(self, folder: Path) -> bool:
        """Rename a spare folder to `folder`, which needs no space. Returns False if none is left."""
        for number in reversed(range(SPARES)):
            with contextlib.suppress(OSError):
                self._spare(number).rename(folder)
                return True
        return False

    def remove_scratch(self, session_id: str) -> None:
        """Delete the session's scratch. Links are removed without touching their targets. Raises OSError.

        Uses `rm`, because Python's own walk recurses and fails on a tree a thousand folders deep.
        """
        command = ("rm", "-rf", self.scratch(session_id))
        try:
            subprocess.run(command, check=True, capture_output=True, text=True, timeout=WALK_SECONDS)
        except (OSError, subprocess.SubprocessError) as error:
            reason = getattr(error, "stderr", None) or str(error)
            raise OSError(str(reason).strip()) from error


def _make_usable(folder: Path, mode: int) -> None:
    """Create the folder if it is missing. Raises StartError with the reason if it is not usable."""
    try:
        folder.mkdir(mode=mode, parents=True, exist_ok=True)
        if folder.stat().st_mode & 0o777 == TRAVERSE_MODE:  # the previous process confined commands in another way
            folder.chmod(mode)
    except OSError as error:
        raise StartError(f"AGENT_DATA_DIR: the folder {folder} cannot be created: {error.strerror}") from error
    if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        raise StartError(f"the folder {folder} cannot be written by user {os.geteuid()}: fix its permissions")
