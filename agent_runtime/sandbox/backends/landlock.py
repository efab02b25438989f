"""The backends without namespaces: commands as another user, or as the server's own, held by seccomp, limits and
Landlock.

Both put `launcher` in front of the command. Neither offers a network, so no socket can be created at all. As the
server's own user, a command could change the modes of the server's files by path, which no ruleset checks, so such
calls succeed without effect.
"""

from __future__ import annotations

import ctypes
import marshal
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ...errors import ToolFailure
from ..errors import BackendUnavailable
from ..kernel import seccomp
from ..spec import mounts
from ..spec.spec import SandboxLimits, SandboxSpec
from .backend import CONFINED_ID, LIFELINE, READERS_ID, BackendName, LaunchPlan, environment

LAUNCHER = Path(__file__).with_name("launcher.py")
DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
READABLE_PROC_FILES = ("/proc/cpuinfo", "/proc/meminfo", "/proc/loadavg", "/proc/uptime", "/proc/version")
"""The readable files of /proc; all others reveal other processes."""
CREATE_RULESET = 444
ONLY_VERSION = 1
SET_DUMPABLE = 4


@dataclass(frozen=True, slots=True)
class LandlockBackend:
    """Confines with Landlock; made by `other_user` and `same_user`."""

    name: BackendName
    filter: bytes
    landlock: int
    """Version of Landlock; 0: none."""
    uid: int | None = None

    @property
    def by_path(self) -> bool:
        return self.uid is not None

    def prepare_host(self, data_dir: Path) -> None:
        if self.uid is None:
            ctypes.CDLL(None).prctl(SET_DUMPABLE, 0, 0, 0, 0)  # from now on only root can inspect the server

    def launch(self, argv: Sequence[str], spec: SandboxSpec) -> LaunchPlan:
        if spec.network is not None:
            raise ToolFailure("commands have no network under this confinement", kind="unavailable")
        plan = {
            "uid": self.uid,
            "groups": [READERS_ID] if spec.readable else [],
            "filter": self.filter,
            "landlock": self.landlock,
            "signals": self.landlock < seccomp.SIGNAL_SCOPE_VERSION,
            "limits": _limits(spec.limits),
            "read": [*_system_paths(), *map(str, spec.readable)],
            "write": list(map(str, spec.writable)),
            "devices": DEVICES,
            "workdir": str(spec.workdir),
            "tmp": str(spec.writable[-1]) if spec.writable else None,
        }
        plan_file = os.memfd_create("plan")
        os.write(plan_file, marshal.dumps(plan))
        return LaunchPlan(
            argv=(sys.executable, "-I", "-S", str(LAUNCHER), LIFELINE, str(plan_file), *argv),
            env=environment(spec),
            fds=(plan_file,),
            uid=self.uid,
            ends_by_lifeline=True,
        )


def other_user(_: Path, version: int | None = None) -> LandlockBackend:
    """Run commands as another user, which only root can do. All commands share that user, so Landlock must separate
    them. `version` overrides the kernel's version of Landlock. Raises BackendUnavailable."""
    if os.geteuid() != 0:
        raise BackendUnavailable("only root can run commands as another user")
    version = landlock_version() if version is None else version
    if not version:
        raise BackendUnavailable("this kernel has no Landlock, so commands would read each other's files and secrets")
    return LandlockBackend("uid", seccomp.build_filter(namespaces=False, landlock=version), version, CONFINED_ID)


def same_user(_: Path) -> LandlockBackend:
    """Run commands as the server's own user, separated by Landlock alone. Raises BackendUnavailable."""
    version = landlock_version()
    if os.geteuid() == 0:
        raise BackendUnavailable("commands would run as root")
    if version < seccomp.SIGNAL_SCOPE_VERSION:
        raise BackendUnavailable(
            f"Landlock {seccomp.SIGNAL_SCOPE_VERSION} is needed and this kernel lacks it (it has {version or 'none'})"
        )
    return LandlockBackend("landlock", seccomp.build_filter(namespaces=False, modes=False), version)


def landlock_version() -> int:
    """Return the kernel's version of Landlock; 0 if it is missing or disabled."""
    return max(0, ctypes.CDLL(None).syscall(CREATE_RULESET, None, 0, ONLY_VERSION))


def _limits(limits: SandboxLimits) -> dict[str, int]:
    return {
        "data": limits.memory,
        "as": limits.memory * 4,
        "nproc": limits.processes,
        "fsize": limits.file_size,
        "nofile": limits.open_files,
        "cpu": limits.cpu_seconds,
        "core": 0,
    }


def _system_paths() -> list[str]:
    """Return the paths of the system's programs and libraries and of Python, and the parts of /etc that bubblewrap
    shows, without files of our own."""
    found = [str(mount.source) for mount in mounts.system_mounts() if mount.kind == "read" and mount.source is not None]
    return [*(path for path in found if not path.startswith(str(mounts.OWN_ETC))), *READABLE_PROC_FILES]
