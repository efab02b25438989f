"""The users that run machines' processes on this host: one for each machine, without a name, rights or files.

A host that is not root cannot change users, so its machines run as the host's own user.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path

from .socket_dir import SocketDir

_FIRST_UID = 0x7000_0000
"""Above the ids that systems assign to people, services and containers, with room for 28 bits."""


@dataclass(frozen=True, slots=True)
class Jail:
    uid: int
    groups: tuple[int, ...] = ()


def jail_of(socket_dir: SocketDir) -> Jail | None:
    """Return the machine's own user, or None if it must run as the host's user."""
    uid = _FIRST_UID + int(socket_dir.folder.name[:7], 16)
    return Jail(uid) if os.geteuid() == 0 and _is_mapped(uid) else None


def with_device(jail: Jail, device: Path) -> Jail | None:
    """Return the jail with access to a device, by a group if needed; None if only root may use the device."""
    found = device.stat()
    both = stat.S_IROTH | stat.S_IWOTH
    if found.st_mode & both == both:
        return jail
    both = stat.S_IRGRP | stat.S_IWGRP
    return Jail(jail.uid, (*jail.groups, found.st_gid)) if found.st_mode & both == both else None


def _is_mapped(uid: int, table: Path = Path("/proc/self/uid_map")) -> bool:
    """Whether the user id is valid here: a container may map only some ids."""
    try:
        rows = [[int(part) for part in line.split()] for line in table.read_text().splitlines()]
    except OSError:
        return False
    return any(first <= uid < first + count for first, _, count in rows)
