"""The seam of confinement: a rung turns "run this in that box" into a program to start.

Rungs there are, best first: `bubblewrap`; `unaided`, as another user or as the same one; and `bare`. All of them are
something put in front of the command.
"""

from __future__ import annotations

import os
import resource
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from ..errors import BackendUnavailable
from ..spec.spec import SandboxLimits, SandboxSpec

BackendName = Literal["bubblewrap", "uid", "landlock", "off"]

CONFINED_ID = 61000
"""User and group of a confined command. Below 65536, so that it exists in nested user namespaces, and in a range that
neither Debian nor systemd hands out."""
MAX_CONFINED_PROCESSES = 4096
"""Processes and threads of the confined user, where the kernel counts those of all commands together: so many that none
has to go without for the sake of another one. How many a single command may have, a guard watches."""
READERS_ID = 61001
"""The group that may read skills where commands come by the data folder itself."""
COMMAND_PATH = os.pathsep.join((f"{sys.prefix}/bin", "/usr/local/bin", "/usr/bin", "/bin"))
"""Where commands are looked for."""
GIT_SETTINGS = str(Path(__file__).parents[1] / "etc" / "gitconfig")
"""Settings of git that a repository cannot change."""
LIFELINE = "{lifeline}"
"""An argument of a Launch that stands for the number of the lifeline's descriptor."""


@dataclass(frozen=True, slots=True)
class LaunchPlan:
    """A program to start. Its descriptors are the caller's to close once it runs."""

    argv: tuple[str, ...]
    env: Mapping[str, str]
    cwd: Path | None = None
    fds: tuple[int, ...] = ()
    """Descriptors that the program inherits."""
    uid: int | None = None
    """Whom the command becomes; none: it stays the server's own user."""
    ends_by_lifeline: bool = False
    """The program ends its command by itself when its lifeline ends, and must not be ended before that is done."""


class SandboxBackend(Protocol):
    """One way to hold a command."""

    @property
    def name(self) -> BackendName: ...

    @property
    def uid(self) -> int | None:
        """Whom commands run as in the kernel's eyes, and who must own what they may write; none: the server itself."""
        ...

    @property
    def by_path(self) -> bool:
        """Whether commands, as another user, walk through the data folder itself to reach theirs."""
        ...

    def launch(self, argv: Sequence[str], spec: SandboxSpec) -> LaunchPlan:
        """How to start a command. Raises ToolFailure when the box asks for what this rung cannot give."""
        ...

    def prepare_host(self, data_dir: Path) -> None:
        """Makes the server and its data folder fit to be trusted with this rung. Raises Missing when that cannot be."""
        ...


def find_program(name: str) -> str:
    """The absolute path of a program on the server's PATH, or Missing."""
    found = shutil.which(name)
    if found is None:
        raise BackendUnavailable(f"{name} is not installed")
    return found


def environment(spec: SandboxSpec) -> dict[str, str]:
    """The whole environment of a command."""
    return {
        "PATH": COMMAND_PATH,
        "HOME": "/tmp",  # noqa: S108 - a private tmpfs on the rung that matters
        "TMPDIR": "/tmp",  # noqa: S108
        "USER": "agent",
        "LOGNAME": "agent",
        "SHELL": "/bin/bash",
        "LANG": "C.UTF-8",
        "TERM": "dumb",
        "GIT_CONFIG_SYSTEM": GIT_SETTINGS,
        **spec.env,
    }


def lower_priority(spec: SandboxSpec) -> tuple[str, ...]:
    """Put in front of a command: the server comes first, whatever priority it has itself."""
    return () if spec.lowers_own_priority else (find_program("nice"), "-n", "39")


def limit_resources(limits: SandboxLimits, *, processes: int | None = None) -> tuple[str, ...]:
    """The launcher that sets the resource limits, to be put in front of a command; without a number, processes are not
    counted by the kernel. None is above what the server itself may take, for nothing confined may raise it."""
    wanted = {
        "data": limits.memory,
        "as": limits.memory * 4,
        **({"nproc": processes} if processes else {}),
        "fsize": limits.file_size,
        "nofile": limits.open_files,
        "cpu": limits.cpu_seconds,
        "core": 0,
    }
    return (
        find_program("prlimit"),
        *(f"--{name}={_cap_at_hard_limit(name, most)}" for name, most in wanted.items()),
        "--",
    )


def _cap_at_hard_limit(name: str, limit: int) -> int:
    _, hard = resource.getrlimit(getattr(resource, f"RLIMIT_{name.upper()}"))
    return limit if hard == resource.RLIM_INFINITY else min(limit, hard)
