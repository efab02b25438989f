"""Back up files of the workspace before the server replaces or deletes them.

    .backups/notes/plan.md/20261105T093012417Z

Publishing a new file leaves the old one without a name but intact. A backup is a hard link made beforehand, and so
needs no copy; a file that will be written in place is copied. Backups are in the workspace, where the agent can read
them and the quota counts them, and where commands can spoil them as they can spoil the file itself. A crash between
backup and publishing leaves one file with two names, which the next backup detects.
"""

from __future__ import annotations

import errno
import re
import stat
import threading
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from agent_common.telemetry import logger

from ..errors import ToolFailure
from ..ports import Clock
from .copies import folder_of_copies
from .principal_paths import BACKUPS
from .safe_path import SafePath

log = logger(__name__)

VERSIONS_PER_FILE = 20
"""Maximum versions of one file."""
MAX_FILE_BYTES = 10 * 1024 * 1024
"""Maximum bytes of a file that is backed up."""
MAX_BACKUP_BYTES = 64 * 1024 * 1024
MAX_BACKUP_FILES = 4000
"""Maximum number of backups below one root."""
PRUNED_SHARE = 0.9
"""Share of the limits that pruning leaves, so that it is rarely needed."""
MAX_ENTRIES = 20_000
MAX_DEPTH = 64
"""Maximum entries read, and nesting of folders: commands can create any number of them here."""
MAX_ROOTS = 1000
"""Maximum number of roots whose total size is kept in memory."""
_STAMP = re.compile(r"\d{8}T\d{9}Z")
_UNLINKABLE = frozenset({errno.EXDEV, errno.EPERM, errno.EOPNOTSUPP, errno.EMLINK, errno.ENOSYS})
_TRIES = 50


@dataclass(frozen=True, slots=True)
class BackupCopy:
    """The result of backing up a file."""

    path: str | None = None
    """Path of the backup relative to the workspace; None if none was needed or possible."""
    failure: str | None = None
    """Why the old version is lost; None if it is not."""

    def metadata(self) -> dict[str, Any]:
        """Return the metadata for a tool's result."""
        fields = {"backup": self.path, "backup_failed": self.failure}
        return {name: value for name, value in fields.items() if value is not None}


@dataclass(slots=True)
class _Total:
    bytes: int = 0
    files: int = 0

    def add(self, size: int, files: int) -> None:
        self.bytes += size
        self.files += files


@dataclass(frozen=True, slots=True)
class _Version:
    safe_path: SafePath
    stamp: str
    size: int
    inode: tuple[int, int]


class FileBackups:
    """Makes the backups of all files. Called from threads that hold the lock of the file's path."""

    def __init__(
        self,
        clock: Clock,
        *,
        versions_per_file: int = VERSIONS_PER_FILE,
        max_bytes: int = MAX_BACKUP_BYTES,
        root: Path | None = None,
    ) -> None:
        """`max_bytes` limits all backups below one root. `root`: where backups are kept; None: at that of the file."""
        self._root = root
        self._clock = clock
        self._each = versions_per_file
        self._most = max_bytes
        self._largest = min(MAX_FILE_BYTES, int(max_bytes * PRUNED_SHARE))
        self._totals: dict[Path, _Total] = {}
        self._guard = threading.Lock()

    @contextmanager
    def backing_up(self, safe_path: SafePath, new: bytes | None = None) -> Generator[BackupCopy]:
        """Back up a file while the block replaces it by `new` or deletes it. If the old version is lost, this is logged
        once the block has succeeded."""
        kept = self.back_up(safe_path, new)
        yield kept
        if kept.failure is not None:
            log.warning("a file was not backed up", path=safe_path.shown, reason=kept.failure)

    def back_up(self, safe_path: SafePath, new: bytes | None = None) -> BackupCopy:
        """Back up a file that will be replaced by `new` or deleted. Never raises; a failure is in the result."""
        parts = safe_path.path.relative_to(safe_path.root).parts
        if folder_of_copies(parts) is not None:  # copies are not backed up
            return BackupCopy()
        try:
            found = safe_path.lstat()
            if found is None or not stat.S_ISREG(found.st_mode) or not found.st_size or _same(safe_path, found, new):
                return BackupCopy()
            if found.st_size > self._largest:
                return BackupCopy(failure=f"the previous version has more than {self._largest / 2**20:.3g} MiB")
            root = self._root or safe_path.root
            return self._back_up(safe_path, found, SafePath(root, _folder(root).joinpath(*parts), _shown(*parts)))
        except (ToolFailure, OSError) as failure:
            reason = failure.message if isinstance(failure, ToolFailure) else failure.strerror or str(failure)
            return BackupCopy(failure=reason)

    def _back_up(self, safe_path: SafePath, found: Any, folder: SafePath) -> BackupCopy:
        versions = sorted(_versions(folder), key=lambda version: version.stamp)
        if versions and versions[-1].inode == (found.st_dev, found.st_ino):  # a crash came before it was replaced
            return BackupCopy(versions[-1].safe_path.shown)
        overwritten = not safe_path.is_replaceable(found)
        if overwritten and versions and _same_content(safe_path, versions[-1].safe_path):  # writing it failed then
            return BackupCopy(versions[-1].safe_path.shown)
        at = self._unused_version(folder)
        if overwritten:
            _copy(safe_path, at)
        else:
            _link_or_copy(safe_path, at, found.st_nlink)
        for version in versions[: max(0, len(versions) + 1 - self._each)]:
            self._count(folder.root, -_drop(version), -1)
        self._count(folder.root, found.st_size, 1)
        self._prune(at)
        return BackupCopy(at.shown)

    def _unused_version(self, folder: SafePath) -> SafePath:
        for later in range(_TRIES):
            stamp = _stamp(self._clock.now_ms() + later)
            at = SafePath(folder.root, folder.path / stamp, f"{folder.shown}/{stamp}")
            if at.lstat() is None:
                return at
        raise ToolFailure(f"no unused time was found for a new version in {folder.shown}")

    # -- limits

    def _count(self, root: Path, size: int, files: int) -> None:
        with self._guard:
            if root in self._totals:
                self._totals[root].add(size, files)

    def _prune(self, latest: SafePath) -> None:
        """Delete the oldest backups, but never the latest, if there are too many. The files are counted once per
        process, and again when the running total exceeds a limit."""
        root = latest.root
        with self._guard:
            total = self._totals.get(root)
            if total is not None and total.bytes <= self._most and total.files <= MAX_BACKUP_FILES:
                return
            if len(self._totals) >= MAX_ROOTS:
                self._totals.clear()
            versions = sorted(_all(root), key=lambda version: version.stamp)
            total = self._totals[root] = _Total(sum(version.size for version in versions), len(versions))
            if total.bytes <= self._most and total.files <= MAX_BACKUP_FILES:
                return
            for version in versions:
                if total.bytes <= self._most * PRUNED_SHARE and total.files <= MAX_BACKUP_FILES * PRUNED_SHARE:
                    break
                if version.safe_path.path == latest.path:  # the clock may have been set back
                    continue
                total.add(-_drop(version), -1)
                _tidy(version.safe_path)


def _folder(root: Path) -> Path:
    return root.joinpath(*BACKUPS)


def _shown(*parts: str) -> str:
    return "/".join((*BACKUPS, *parts))


def _stamp(now_ms: int) -> str:
    seconds, rest = divmod(now_ms, 1000)
    return f"{datetime.fromtimestamp(seconds, tz=UTC):%Y%m%dT%H%M%S}{rest:03d}Z"


def _same(safe_path: SafePath, found: Any, new: bytes | None) -> bool:
    if new is None or found.st_size != len(new):
        return False
    with safe_path.open() as file:
        return file.read(len(new) + 1) == new


def _same_content(one: SafePath, other: SafePath) -> bool:
    with one.open() as first, other.open() as second:
        return first.read(MAX_FILE_BYTES + 1) == second.read(MAX_FILE_BYTES + 1)


def _link_or_copy(safe_path: SafePath, at: SafePath, names: int) -> None:
    """Link the file into the backups, or copy it where that is not possible. Raises ToolFailure."""
    try:
        safe_path.link(at)
    except ToolFailure as failure:
        number = failure.__cause__.errno if isinstance(failure.__cause__, OSError) else None
        if number not in _UNLINKABLE or names != 1:
            raise
        _copy(safe_path, at)


def _copy(safe_path: SafePath, at: SafePath) -> None:
    with safe_path.open() as file:
        at.write_atomically(file.read(MAX_FILE_BYTES), durable=False)


def _versions(folder: SafePath) -> list[_Version]:
    """Return the backups directly in a folder."""
    return [version for version in _list_folder(folder, MAX_ENTRIES) if isinstance(version, _Version)]


def _all(root: Path) -> Iterator[_Version]:
    """Yield all backups below a root, up to the limits."""
    left = MAX_ENTRIES
    folders = [SafePath(root, _folder(root), _shown())]
    while folders and left > 0:
        for found in _list_folder(folders.pop(), left):
            left -= 1
            if isinstance(found, _Version):
                yield found
            elif len(found.path.parts) <= len(root.parts) + MAX_DEPTH:
                folders.append(found)


def _list_folder(folder: SafePath, most: int) -> Iterator[_Version | SafePath]:
    """Yield the backups and folders in a folder; none if it is missing or not a folder."""
    try:
        entries, _ = folder.entries(most)
    except ToolFailure:
        return
    for name, found in entries:
        at = SafePath(folder.root, folder.path / name, f"{folder.shown}/{name}")
        if stat.S_ISDIR(found.st_mode):
            yield at
        elif stat.S_ISREG(found.st_mode) and _STAMP.fullmatch(name):
            yield _Version(at, name, found.st_size, (found.st_dev, found.st_ino))


def _drop(version: _Version) -> int:
    """Delete a backup and return its size."""
    with suppress(ToolFailure):  # deleted already
        version.safe_path.remove(durable=False)
    return version.size


def _tidy(gone: SafePath) -> None:
    """Remove folders that have become empty."""
    top = _folder(gone.root)
    for above in gone.path.parents:
        if above == top or not SafePath(gone.root, above, "").remove_if_empty():
            return
