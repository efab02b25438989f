"""A file that reserves disk space for the database.

Commands share the disk with the database and can fill it faster than their quota is measured. The database then deletes
this file, so that the agent can keep working and delete what fills the disk.
"""

from __future__ import annotations

import os
from pathlib import Path

MAX_RESERVE_BYTES = 16 * 1024 * 1024
SHARE = 16
"""The reserve takes one part in this many of a smaller disk."""
MIN_FREE_FILES = 1000


class DiskReserve:
    """The reserved space; used by the writer's thread only, except for `is_low`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.released = True
        """Whether the space is to be reserved, again or for the first time."""

    @property
    def is_low(self) -> bool:
        """Whether less space than the reserve, or room for only a few files, is left on the disk."""
        disk = os.statvfs(self._path.parent)
        return self._free() < self._size() or disk.f_favail < min(MIN_FREE_FILES, disk.f_files // SHARE)

    def fill(self) -> None:
        """Reserve the space, unless there is too little. Idempotent: the reserve of an earlier process is kept."""
        size = self._size()
        if not self._path.exists() and self._free() < 3 * size:
            return
        try:
            descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                os.posix_fallocate(descriptor, 0, size)
            finally:
                os.close(descriptor)
            self.released = False
        except OSError:
            self.release()

    def release(self) -> bool:
        """Free the reserved space. Returns False if there was none."""
        self.released = True
        try:
            self._path.unlink()
        except OSError:
            return False
        return True

    def _free(self) -> int:
        disk = os.statvfs(self._path.parent)
        return disk.f_bavail * disk.f_frsize

    def _size(self) -> int:
        disk = os.statvfs(self._path.parent)
        return min(MAX_RESERVE_BYTES, disk.f_blocks * disk.f_frsize // SHARE)
