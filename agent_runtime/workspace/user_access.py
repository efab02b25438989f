"""Let the user of commands work in a folder of another user, by POSIX access lists.

A server that is root runs commands as a user made for them. A folder of the user keeps its owner, which git and backups
look at, so that user is let in beside the owner: now into what is there, and by default entries into what will be made.
Every file is opened without following links, and changed by its descriptor.
"""

from __future__ import annotations

import errno
import os
import stat
import struct
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

SECONDS = 60.0
"""Maximum seconds for one folder."""
ACCESS = "system.posix_acl_access"
DEFAULT = "system.posix_acl_default"
READ_WRITE = 6
EXECUTE = 1
_VERSION = struct.pack("<I", 2)
_ENTRY = struct.Struct("<HHI")
_USER_OBJ = 0x01
_USER = 0x02
_GROUP_OBJ = 0x04
_GROUP = 0x08
_MASK = 0x10
_OTHER = 0x20
_NO_ID = 0xFFFFFFFF
_ANYTHING = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC

Entries = dict[tuple[int, int], int]
"""(tag, id) -> permissions."""


def grant_access(root: Path, uid: int) -> None:
    """Let a user read and write everything in a folder, beside its owner. Left out are devices, what is mounted
    read-only, and files with other hard links, which may be outside. Raises OSError, also if the file system has no
    access lists."""
    deadline = time.monotonic() + SECONDS
    for _, _, names, folder in os.fwalk(root):  # links are not followed
        if time.monotonic() > deadline:
            raise OSError(errno.ETIMEDOUT, f"there are more files than can be changed in {SECONDS:.0f} s")
        _grant(folder, uid)
        for name in names:
            _grant_file(folder, name, uid)


def _grant_file(folder: int, name: str, uid: int) -> None:
    try:
        opened = os.open(name, _ANYTHING, dir_fd=folder)
    except FileNotFoundError:
        return  # deleted meanwhile
    try:
        found = os.fstat(opened)
        if stat.S_ISREG(found.st_mode) and found.st_nlink == 1:
            _grant(opened, uid)
    finally:
        os.close(opened)


def _grant(opened: int, uid: int) -> None:
    path = f"/proc/self/fd/{opened}"
    found = os.fstat(opened)
    is_folder = stat.S_ISDIR(found.st_mode)
    wanted = READ_WRITE | (EXECUTE if is_folder or found.st_mode & stat.S_IXUSR else 0)
    if found.st_uid == uid:
        return
    _add(path, ACCESS, _of_mode(found.st_mode), {uid: wanted})
    if is_folder:
        owner = {found.st_uid: READ_WRITE | EXECUTE} if found.st_uid else {}
        _add(path, DEFAULT, _of_mode(found.st_mode), {uid: READ_WRITE | EXECUTE, **owner})


def _add(path: str, name: str, without: Entries, users: dict[int, int]) -> None:
    """Add users to a list. `without`: the list if there is none yet."""
    before = _read(path, name)
    entries = {**(before or without), **{(_USER, uid): allowed for uid, allowed in users.items()}}
    grouped = (_USER, _GROUP_OBJ, _GROUP)
    mask = 0
    for (tag, _), allowed in entries.items():
        mask |= allowed if tag in grouped else 0
    entries[_MASK, _NO_ID] = mask
    if entries != before:
        try:
            os.setxattr(path, name, _VERSION + b"".join(_packed(entries)))
        except OSError as error:
            if error.errno != errno.EROFS:
                raise


def _read(path: str, name: str) -> Entries | None:
    try:
        data = os.getxattr(path, name)
    except OSError as error:
        if error.errno == errno.ENODATA:
            return None
        raise
    return {(tag, id): allowed for tag, allowed, id in _ENTRY.iter_unpack(data[len(_VERSION) :])}


def _packed(entries: Entries) -> Iterator[bytes]:
    for (tag, id), allowed in sorted(entries.items()):  # the kernel wants them in this order
        yield _ENTRY.pack(tag, allowed, id)


def _of_mode(mode: int) -> Entries:
    shifts: Iterable[tuple[int, int]] = ((_USER_OBJ, 6), (_GROUP_OBJ, 3), (_OTHER, 0))
    return {(tag, _NO_ID): mode >> shift & 7 for tag, shift in shifts}
