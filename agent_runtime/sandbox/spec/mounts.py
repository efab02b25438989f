"""The host's files that a confined command sees, as mounts in the order in which they must be made."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

import agent_common
import agent_runtime

from .spec import SandboxSpec

SYSTEM_LINKS = ("/bin", "/lib", "/lib32", "/lib64", "/libx32", "/sbin")
"""Links into /usr on most systems, but folders on some."""

SHOWN_ETC = (
    "/etc/alternatives",
    "/etc/ca-certificates.conf",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/localtime",
    "/etc/mime.types",
    "/etc/protocols",
    "/etc/services",
    "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf",
)
"""The visible part of the host's /etc. Users, groups and hosts come from our own files in the folder `etc`."""

MASKED_PROC = ("/proc/acpi", "/proc/cmdline", "/proc/kallsyms", "/proc/kcore", "/proc/keys", "/proc/timer_list")
"""Files of /proc about the machine that no command needs."""

OWN_ETC = Path(__file__).parents[1] / "etc"


@dataclass(frozen=True, slots=True)
class Mount:
    """One mount. `mask` hides the target's content; `tmp` is an empty, world-writable folder in memory."""

    kind: Literal["read", "write", "link", "mask", "tmp"]
    target: Path
    source: Path | None = None


def python_roots() -> tuple[Path, ...]:
    """Return the folders that this Python and our packages need."""
    program = Path(sys.executable).resolve()
    ours = (Path(module.__file__).parent for module in (agent_common, agent_runtime) if module.__file__)
    return tuple(dict.fromkeys((Path(sys.prefix), Path(sys.base_prefix), program.parent.parent, *ours)))


@cache
def system_mounts() -> tuple[Mount, ...]:
    """Return the mounts of the system's programs and libraries, and of Python."""
    usr = Path("/usr")
    found = [Mount("read", usr, usr)]
    for path in map(Path, SYSTEM_LINKS):
        if path.is_symlink():
            found.append(Mount("link", path, path.readlink()))
        elif path.is_dir():
            found.append(Mount("read", path, path))
    found.extend(Mount("read", path, path) for path in map(Path, SHOWN_ETC) if path.exists())
    found.extend(Mount("read", Path("/etc", ours.name), ours) for ours in sorted(OWN_ETC.iterdir()))
    found.extend(Mount("read", path, path) for path in python_roots() if not path.is_relative_to(usr))
    return tuple(found)


def plan_mounts(spec: SandboxSpec, hidden: Sequence[Path], tmp: Sequence[Path]) -> list[Mount]:
    """Return all mounts of a sandbox, shallow ones first, so that a deeper one is never hidden by one above it."""
    wanted = [
        *system_mounts(),
        *(Mount("mask", path) for path in hidden),
        *(Mount("tmp", path) for path in tmp),
        *(Mount("read", path, path) for path in spec.readable),
        *(Mount("write", path, path) for path in spec.writable),
    ]
    return sorted(wanted, key=lambda mount: len(mount.target.parts))


def mount_options(mounts: Iterable[Mount], size: int) -> Iterator[str]:
    """Yield the plan as options of bubblewrap; `size` limits each folder in memory, in bytes."""
    made: set[Path] = set()
    for mount in mounts:
        for parent in reversed(mount.target.parents[:-1]):
            if parent not in made:
                made.add(parent)
                yield from ("--perms", "0755", "--dir", str(parent))
        made.add(mount.target)
        match mount.kind:
            case "read":
                yield from ("--ro-bind", str(mount.source), str(mount.target))
            case "write":
                yield from ("--bind", str(mount.source), str(mount.target))
            case "link":
                yield from ("--symlink", str(mount.source), str(mount.target))
            case "mask":
                yield from ("--perms", "0755", "--size", "4096", "--tmpfs", str(mount.target))
            case "tmp":
                yield from ("--perms", "1777", "--size", str(size), "--tmpfs", str(mount.target))


def mask_options() -> Iterator[str]:
    for path in MASKED_PROC:
        if os.path.isdir(path):
            yield from ("--size", "4096", "--tmpfs", path, "--remount-ro", path)
        elif os.path.exists(path):
            yield from ("--ro-bind", "/dev/null", path)
