"""What an operator can do where commands cannot be confined: the cures that exist on this machine."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

_CONTAINER_FILES = (".dockerenv", "run/.containerenv", "run/systemd/container", "var/run/secrets/kubernetes.io")
_LAYERED_ROOT = re.compile(r"^\S+ \S+ \S+ \S+ / .* - (?:overlay|fuse-overlayfs|fuse\.fuse-overlayfs) ", re.MULTILINE)
"""The mount of `/` in the container of an image, also where its runtime leaves none of these files."""
PAGE = "docs/explanation/confinement.md#where-commands-cannot-be-confined"


def confinement_cures(root: Path = Path("/"), *, uid: int | None = None, has_bwrap: bool | None = None) -> list[str]:
    """Return what would let commands be confined, the best first.

    `root`, `uid` and `has_bwrap` stand for this machine's file system, the server's user and whether bubblewrap is
    installed.
    """
    user = os.geteuid() if uid is None else uid
    in_container = _is_container(root)
    found: list[str] = []
    if not (shutil.which("bwrap") is not None if has_bwrap is None else has_bwrap):
        found.append("install bubblewrap (apt-get install bubblewrap)")
    if _setting(root, "user/max_user_namespaces") == "0":
        found.append("allow user namespaces: sysctl user.max_user_namespaces=15000")
    if _setting(root, "kernel/unprivileged_userns_clone") == "0":
        found.append("allow user namespaces: sysctl kernel.unprivileged_userns_clone=1")
    restricted = _setting(root, "kernel/apparmor_restrict_unprivileged_userns") == "1"
    if restricted and not in_container:
        found.append(
            "let bubblewrap make user namespaces: give /usr/bin/bwrap an AppArmor profile with userns, or "
            "sysctl kernel.apparmor_restrict_unprivileged_userns=0"
        )
    if in_container:
        if user:
            found.append(
                "run the server as root in the container (--user 0): commands then run as another user under Landlock"
            )
        options = "--security-opt seccomp=images/seccomp.json"
        if restricted:
            options += " --security-opt apparmor=unconfined"
        found.append(f"or let bubblewrap make its namespaces: {options}")
    elif user and not found:
        found.append("run the server as root: commands then run as another user under Landlock (Linux 5.13)")
    found.append("or, where the machine itself is the wall, run commands unconfined: AGENT_CONFINEMENT=off")
    return found


def _is_container(root: Path) -> bool:
    if any((root / name).exists() for name in _CONTAINER_FILES):
        return True
    try:
        return _LAYERED_ROOT.search((root / "proc/self/mountinfo").read_text(errors="replace")) is not None
    except OSError:
        return False


def _setting(root: Path, name: str) -> str | None:
    """Return a setting of the kernel, or None if it has none of that name."""
    try:
        return (root / "proc/sys" / name).read_text().strip()
    except OSError:
        return None
