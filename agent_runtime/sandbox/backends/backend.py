"""The interface of confinement backends: a backend turns a command and its SandboxSpec into a program to start.

The backends, best first, are `bubblewrap`; Landlock, with commands as another user or as the server's own; and none.
Each of them is a launcher in front of the command.
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
"""User and group of a confined command. It is below 65536, so that it exists in nested user namespaces, and in a range
that neither Debian nor systemd assigns."""
MAX_CONFINED_PROCESSES = 4096
"""Limit of processes and threads of the confined user, for kernels that count those of all commands together. It is so
high that no command starves another; a guard enforces the limit of a single command."""
READERS_ID = 61001
"""The group that may read skills if commands reach them through the data folder itself."""
COMMAND_PATH = os.pathsep.join((f"{sys.prefix}/bin", "/usr/local/bin", "/usr/bin", "/bin"))
"""The PATH of commands."""
GIT_SETTINGS = str(Path(__file__).parents[1] / "etc" / "gitconfig")
"""Git settings that a repository cannot override."""
LIFELINE = "{lifeline}"
"""Placeholder in a LaunchPlan's arguments for the number of the lifeline's descriptor."""


@dataclass(frozen=True, slots=True)
class LaunchPlan:
    """A program to start. The caller closes its descriptors once it runs."""

    argv: tuple[str, ...]
    env: Mapping[str, str]
    cwd: Path | None = None
    fds: tuple[int, ...] = ()
    """Descriptors that the program inherits."""
    uid: int | None = None
    """The user that the command switches to; None: it keeps the server's user."""
    ends_by_lifeline: bool = False
    """The program kills its command itself when its lifeline ends, and must not be killed before it has done so."""


class SandboxBackend(Protocol):
    """One way to confine commands."""

    @property
    def name(self) -> BackendName: ...

    @property
    def uid(self) -> int | None:
        """The user that commands run as, and that must own what they may write; None: the server's own."""
        ...

    @property
    def by_path(self) -> bool:
        """Whether commands, as another user, reach their folders through the data folder itself."""
        ...

    def launch(self, argv: Sequence[str], spec: SandboxSpec) -> LaunchPlan:
        """Return how to start a command. Raises ToolFailure if the spec asks for something that this backend cannot
        do."""
        ...

    def prepare_host(self, data_dir: Path) -> None:
        """Prepare the server and its data folder for this backend. Raises BackendUnavailable if that is not
        possible."""
        ...


def find_program(name: str) -> str:
    """Return the absolute path of a program on the server's PATH. Raises BackendUnavailable."""
    found = shutil.which(name)
    if found is None:
        raise BackendUnavailable(f"{name} is not installed")
    return found


def environment(spec: SandboxSpec) -> dict[str, str]:
    """Return the complete environment of a command."""
    return {
        "PATH": COMMAND_PATH,
        "HOME": "/tmp",  # noqa: S108 - a private tmpfs under bubblewrap
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
    """Return the launcher that gives a command the lowest priority, below the server's."""
    return () if spec.lowers_own_priority else (find_program("nice"), "-n", "39")


def limit_resources(limits: SandboxLimits, *, processes: int | None = None) -> tuple[str, ...]:
    """Return the launcher that sets the resource limits. `processes` None: the kernel does not limit them. No limit
    exceeds the server's own, because a confined process may not raise it."""
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
