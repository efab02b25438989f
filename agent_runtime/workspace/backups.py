"""What was in a file before the server put something else there.

    .backups/notes/plan.md/20261105T093012417Z

Publishing a file leaves the old one untouched under no name, so a backup is a second name given to it in time: it costs
no copy. It lies in the workspace, for the agent to read and for the quota to count, and commands may spoil it as they
may spoil the file itself. Dying between backup and publishing leaves one file with two names, which the next backup
finds.
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

EACH = 20
"""Versions of one file."""
LARGEST = 10 * 1024 * 1024
"""Bytes of a file that is backed up."""
MOST_BYTES = 64 * 1024 * 1024
MOST_FILES = 4000
"""Of all backups in one place."""
ROOM = 0.9
"""What is left of the bounds when too much has been dropped, so that this is rare."""
MOST_SEEN, DEEPEST = 20_000, 64
"""Entries that are looked at, and folders in folders: commands can make any number of them here."""
MOST_ROOTS = 1000
"""Of which the sum is kept in memory."""
_STAMP = re.compile(r"\d{8}T\d{9}Z")
_UNLINKABLE = frozenset({errno.EXDEV, errno.EPERM, errno.EOPNOTSUPP, errno.EMLINK, errno.ENOSYS})
_TRIES = 50


@dataclass(frozen=True, slots=True)
class BackupCopy:
    """What became of the version before."""

    path: str | None = None
    """Where it is, relative to the workspace; none when there is nothing to keep."""
    trouble: str | None = None
    """Why it is lost."""

    def metadata(self) -> dict[str, Any]:
        """For the result of a tool."""
        told = {"backup": self.path, "backup_failed": self.trouble}
        return {name: value for name, value in told.items() if value is not None}


@dataclass(slots=True)
class _Total:
    bytes: int = 0
    files: int = 0

    def add(self, size: int, files: int) -> None:
        self.bytes += size
        self.files += files


@dataclass(frozen=True, slots=True)
class _Version:
    place: SafePath
    stamp: str
    size: int
    inode: tuple[int, int]


class FileBackups:
    """Those of all files. Called from threads; each call holds the lock of its path."""

    def __init__(self, clock: Clock, *, each: int = EACH, most: int = MOST_BYTES) -> None:
        """`most` is in bytes, of all backups below one root."""
        self._clock, self._each, self._most = clock, each, most
        self._largest = min(LARGEST, int(most * ROOM))
        self._totals: dict[Path, _Total] = {}
        self._guard = threading.Lock()

    @contextmanager
    def keeping(self, place: SafePath, new: bytes | None = None) -> Generator[BackupCopy]:
        """Keeps a file while the block replaces it by `new`, or deletes it. A version is lost only once that is done;
        then the log says so."""
        kept = self.keep(place, new)
        yield kept
        if kept.trouble is not None:
            log.warning("a file was not backed up", path=place.shown, reason=kept.trouble)

    def keep(self, place: SafePath, new: bytes | None = None) -> BackupCopy:
        """Call this before a file is replaced by `new`, or deleted. Never raises: what cannot be kept is told."""
        parts = place.path.relative_to(place.root).parts
        if folder_of_copies(parts) is not None:  # nothing in there is backed up again
            return BackupCopy()
        try:
            found = place.look()
            if found is None or not stat.S_ISREG(found.st_mode) or not found.st_size or _same(place, found, new):
                return BackupCopy()
            if found.st_size > self._largest:
                return BackupCopy(trouble=f"the version before has more than {self._largest / 2**20:.3g} MiB")
            return self._keep(place, found, SafePath(place.root, _folder(place.root).joinpath(*parts), _shown(*parts)))
        except (ToolFailure, OSError) as failure:
            reason = failure.message if isinstance(failure, ToolFailure) else failure.strerror or str(failure)
            return BackupCopy(trouble=reason)

    def _keep(self, place: SafePath, found: Any, folder: SafePath) -> BackupCopy:
        versions = sorted(_versions(folder), key=lambda version: version.stamp)
        if versions and versions[-1].inode == (found.st_dev, found.st_ino):  # we died before it was replaced
            return BackupCopy(versions[-1].place.shown)
        at = self._copy(place, found.st_nlink, folder)
        for version in versions[: max(0, len(versions) + 1 - self._each)]:
            self._count(place.root, -_drop(version), -1)
        self._count(place.root, found.st_size, 1)
        self._bound(at)
        return BackupCopy(at.shown)

    def _copy(self, place: SafePath, names: int, folder: SafePath) -> SafePath:
        """Gives the file its second name; where that cannot be, copies it. Raises ToolFailure."""
        for later in range(_TRIES):
            stamp = _stamp(self._clock.now_ms() + later)
            at = SafePath(place.root, folder.path / stamp, f"{folder.shown}/{stamp}")
            try:
                place.link(at)
            except ToolFailure as failure:
                number = failure.__cause__.errno if isinstance(failure.__cause__, OSError) else None
                if number == errno.EEXIST:
                    continue
                if number not in _UNLINKABLE or names != 1:
                    raise
                with place.open() as file:
                    at.publish(file.read(LARGEST), durable=False)
            return at
        raise ToolFailure(f"{folder.shown} has a version of every moment")

    # -- bounds

    def _count(self, root: Path, size: int, files: int) -> None:
        with self._guard:
            if root in self._totals:
                self._totals[root].add(size, files)

    def _bound(self, latest: SafePath) -> None:
        """Drops the oldest backups when there are too many of them, but not the latest. What is there is looked at once
        in a life, and whenever the sum of what was added says that it is too much."""
        root = latest.root
        with self._guard:
            total = self._totals.get(root)
            if total is not None and total.bytes <= self._most and total.files <= MOST_FILES:
                return
            if len(self._totals) >= MOST_ROOTS:
                self._totals.clear()
            versions = sorted(_all(root), key=lambda version: version.stamp)
            total = self._totals[root] = _Total(sum(version.size for version in versions), len(versions))
            if total.bytes <= self._most and total.files <= MOST_FILES:
                return
            for version in versions:
                if total.bytes <= self._most * ROOM and total.files <= MOST_FILES * ROOM:
                    break
                if version.place.path == latest.path:  # the clock may have been set back
                    continue
                total.add(-_drop(version), -1)
                _tidy(version.place)


def _folder(root: Path) -> Path:
    return root.joinpath(*BACKUPS)


def _shown(*parts: str) -> str:
    return "/".join((*BACKUPS, *parts))


def _stamp(now_ms: int) -> str:
    seconds, rest = divmod(now_ms, 1000)
    return f"{datetime.fromtimestamp(seconds, tz=UTC):%Y%m%dT%H%M%S}{rest:03d}Z"


def _same(place: SafePath, found: Any, new: bytes | None) -> bool:
    if new is None or found.st_size != len(new):
        return False
    with place.open() as file:
        return file.read(len(new) + 1) == new


def _versions(folder: SafePath) -> list[_Version]:
    """The backups that lie directly in a folder."""
    return [version for version in _listed(folder, MOST_SEEN) if isinstance(version, _Version)]


def _all(root: Path) -> Iterator[_Version]:
    """All backups below a root, as far as it is worth looking."""
    left = MOST_SEEN
    folders = [SafePath(root, _folder(root), _shown())]
    while folders and left > 0:
        for found in _listed(folders.pop(), left):
            left -= 1
            if isinstance(found, _Version):
                yield found
            elif len(found.path.parts) <= len(root.parts) + DEEPEST:
                folders.append(found)


def _listed(folder: SafePath, most: int) -> Iterator[_Version | SafePath]:
    """Backups and folders in a folder; nothing where there is none, or something else in its place."""
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
    """Deletes a backup; the bytes that it had."""
    with suppress(ToolFailure):  # somebody else has
        version.place.remove(durable=False)
    return version.size


def _tidy(gone: SafePath) -> None:
    """Removes the folders that have nothing in them any more."""
    top = _folder(gone.root)
    for above in gone.path.parents:
        if above == top or not SafePath(gone.root, above, "").remove_if_empty():
            return
