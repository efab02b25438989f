"""Delete folders that agents have written to: no link is followed, and no depth, mode or name is trusted.

A folder is renamed into another beside it, whose name no workspace can have, and emptied there. A host that dies
meanwhile leaves that one; the same deletion again goes on with it.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import threading
import time
from itertools import islice
from pathlib import Path

TRASH_PREFIX = ".trash-"
_MOST_SECONDS = 600.0
"""Time for one folder, in case something still writes to it."""
_NAMES_AT_ONCE = 1000
_FOLDER = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class FolderDeleter:
    """Deletes folders on the calling thread, until it is closed."""

    def __init__(self) -> None:
        self._closed = threading.Event()

    def close(self) -> None:
        """End the deletions under way: each raises InterruptedError."""
        self._closed.set()

    def delete(self, path: Path) -> None:
        """Delete a folder with all that is in it; of a link, the link alone. Idempotent. Raises OSError."""
        try:
            parent = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except FileNotFoundError:
            return
        try:
            trash = f"{TRASH_PREFIX}{path.name}"
            _make_trash(parent, trash)
            with contextlib.suppress(FileNotFoundError):
                _grant_access(parent, path.name)
                os.rename(path.name, f"{trash}/{_new_name()}", src_dir_fd=parent, dst_dir_fd=parent)
            self._delete_trash(parent, trash)
            os.fsync(parent)  # after a power failure an id that is used again must not find this folder
        finally:
            os.close(parent)

    def _delete_trash(self, parent: int, name: str) -> None:
        deadline = time.monotonic() + _MOST_SECONDS
        trash = os.open(name, os.O_RDONLY | _FOLDER, dir_fd=parent)
        try:
            while names := _some_names(trash):
                for one in names:
                    self._delete_entry(trash, one, deadline)
        finally:
            os.close(trash)
        os.rmdir(name, dir_fd=parent)

    def _delete_entry(self, trash: int, name: str, deadline: float) -> None:
        """Delete a file, or a folder with its files. Its folders move up into the trash, so no path gets long."""
        if not _grant_access(trash, name):
            os.unlink(name, dir_fd=trash)
            return
        folder = os.open(name, os.O_RDONLY | _FOLDER, dir_fd=trash)
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    self._check_continues(deadline)
                    if _grant_access(folder, entry.name):
                        os.rename(entry.name, _new_name(), src_dir_fd=folder, dst_dir_fd=trash)
                    else:
                        os.unlink(entry.name, dir_fd=folder)
        finally:
            os.close(folder)
        try:
            os.rmdir(name, dir_fd=trash)
        except OSError as error:
            if error.errno != errno.ENOTEMPTY:  # else entries came, or were skipped, while it was read
                raise

    def _check_continues(self, deadline: float) -> None:
        if self._closed.is_set():
            raise InterruptedError(errno.EINTR, "the host is stopping; the deletion goes on at its next start")
        if time.monotonic() > deadline:
            raise TimeoutError(errno.ETIMEDOUT, f"the folder is not empty after {_MOST_SECONDS:g} s")


def _some_names(folder: int) -> list[str]:
    """Return names of entries, not all of them: there may be millions."""
    with os.scandir(folder) as entries:
        return [entry.name for entry in islice(entries, _NAMES_AT_ONCE)]


def _new_name() -> str:
    return secrets.token_hex(16)


def _make_trash(parent: int, name: str) -> None:
    """Make the folder, unless an earlier deletion has left it."""
    with contextlib.suppress(FileNotFoundError):
        if _grant_access(parent, name):
            return
        os.unlink(name, dir_fd=parent)
    os.mkdir(name, 0o700, dir_fd=parent)


def _grant_access(parent: int, name: str) -> bool:
    """Give ourselves all rights to a folder, which moving and emptying it need. Returns whether the entry is a folder;
    a link is none. Raises FileNotFoundError."""
    try:
        handle = os.open(name, os.O_PATH | _FOLDER, dir_fd=parent)
    except NotADirectoryError:
        return False
    try:
        with contextlib.suppress(PermissionError):  # of another user; root needs no rights
            os.chmod(f"/proc/self/fd/{handle}", 0o700)
    finally:
        os.close(handle)
    return True
