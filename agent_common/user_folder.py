"""Whether an agent may work in a folder of the user: what it does there, it does to the user's own files."""

from __future__ import annotations

import os
import pwd
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

from .home_folder import home_folder

_TOP = frozenset(
    "/" + name
    for name in (
        *("bin", "boot", "dev", "etc", "home", "lib", "lib32", "lib64", "media", "mnt", "opt", "proc", "root", "run"),
        *("sbin", "srv", "sys", "tmp", "usr", "var", "Users", "Volumes"),
    )
)
_SYSTEM = tuple(
    Path("/" + name)
    for name in (
        *("bin", "boot", "dev", "etc", "lib", "lib32", "lib64", "proc", "run", "sbin", "sys"),
        *("usr/bin", "usr/lib", "usr/lib32", "usr/lib64", "usr/libexec", "usr/sbin", "var/spool"),
    )
)


def check_user_folder(path: Path, *, apart_from: Sequence[Path]) -> Path:
    """Return the folder without links, if an agent may work in it. Raises ValueError that says why not.

    `apart_from`: folders that neither contain it nor are in it, because they hold tokens or databases.
    """
    if not path.is_absolute():
        raise ValueError(f"{path} must be a whole path, as in /srv/project")
    folder = Path(os.path.realpath(path))
    try:
        found = folder.stat()
    except OSError as error:
        raise ValueError(f"{folder} cannot be used: {error.strerror}") from None
    if not stat.S_ISDIR(found.st_mode):
        raise ValueError(f"{folder} is not a folder")
    homes = (
        *filter(None, (home_folder(),)),
        *_home_of(found.st_uid),
    )  # root may work in folders of others, but in no one's home
    if fault := _fault(folder, homes, [Path(os.path.realpath(one)) for one in apart_from]):
        raise ValueError(f"{folder} {fault}; take the folder of one project")
    if os.geteuid() not in (0, found.st_uid):
        raise ValueError(f"{folder} belongs to user {found.st_uid}, and this is user {os.geteuid()}")
    if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        raise ValueError(f"{folder} cannot be written by this user; fix its permissions")
    return folder


def _home_of(uid: int) -> Iterator[Path]:
    """Yield the home of a user, if the system knows one."""
    try:
        yield Path(pwd.getpwuid(uid).pw_dir)
    except KeyError:
        return


def _fault(folder: Path, homes: Sequence[Path], apart_from: Sequence[Path]) -> str | None:
    for home in (Path(os.path.realpath(one)) for one in homes):
        if home.is_relative_to(folder):
            return "is your home folder or contains it, with everything that is yours"
        if folder.is_relative_to(home) and folder.relative_to(home).parts[0].startswith("."):
            return "is in a hidden folder of your home, where programs keep settings and keys"
    if str(folder) in _TOP or any(folder.is_relative_to(one) for one in _SYSTEM):
        return "belongs to the system"
    for other in apart_from:
        if folder.is_relative_to(other) or other.is_relative_to(folder):
            return f"and {other}, where agents keep their data, must not contain each other"
    return None
