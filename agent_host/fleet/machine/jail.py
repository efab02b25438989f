"""Who a machine's processes are on this host: users without a name, a right or a file, and each machine another.

A host that is not root cannot make others of its processes; then they are what it is.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path

from .socket_dir import SocketDir

_FIRST_UID = 0x7000_0000
"""Above all that systems give to people, services and containers; 28 bits of room."""


@dataclass(frozen=True, slots=True)
class Jail:
    uid: int
    groups: tuple[int, ...] = ()


def jail_of(socket_dir: SocketDir) -> Jail | None:
    """None: it stays the host's user."""
    uid = _FIRST_UID + int(socket_dir.folder.name[:7], 16)
    return Jail(uid) if os.geteuid() == 0 and _is_mapped(uid) else None


def with_device(jail: Jail, device: Path) -> Jail | None:
    """The same, and it may use a device. None: only root may."""
    found = device.stat()
    both = stat.S_IROTH | stat.S_IWOTH
    if found.st_mode & both == both:
        return jail
    both = stat.S_IRGRP | stat.S_IWGRP
    return Jail(jail.uid, (*jail.groups, found.st_gid)) if found.st_mode & both == both else None


def _is_mapped(uid: int, table: Path = Path("/proc/self/uid_map")) -> bool:
    """Whether this user exists here: in a container not all numbers do."""
    try:
        rows = [[int(part) for part in line.split()] for line in table.read_text().splitlines()]
    except OSError:
        return False
    return any(first <= uid < first + count for first, _, count in rows)
