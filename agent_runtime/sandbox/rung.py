"""The seam of confinement: a rung turns "run this in that box" into a program to start.

Rungs there are: `bubblewrap` and `bare`. Another uid with seccomp, and the same uid under Landlock, fit the same seam:
both are a launcher put in front of the command.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from .box import Box, Limits

RungName = Literal["bubblewrap", "off"]


@dataclass(frozen=True, slots=True)
class Launch:
    """A program to start. Its descriptors are the caller's to close once it runs."""

    argv: tuple[str, ...]
    env: Mapping[str, str]
    cwd: Path | None = None
    fds: tuple[int, ...] = ()
    """Descriptors that the program inherits."""
    uid: int | None = None
    """Whom the command becomes; none: it stays the server's own user."""


class Rung(Protocol):
    """One way to hold a command."""

    @property
    def name(self) -> RungName: ...

    @property
    def uid(self) -> int | None:
        """Whom commands run as in the kernel's eyes, and who must own what they may write; none: the server itself."""
        ...

    def launch(self, argv: Sequence[str], box: Box) -> Launch:
        """How to start a command. Raises ToolFailure when the box asks for what this rung cannot give."""
        ...


class Missing(Exception):
    """A program or a feature that the rung needs is not here; the text says which."""


def program(name: str) -> str:
    """The absolute path of a program on the server's PATH, or Missing."""
    found = shutil.which(name)
    if found is None:
        raise Missing(f"{name} is not installed")
    return found


def environment(box: Box) -> dict[str, str]:
    """The whole environment of a command."""
    return {
        "PATH": os.pathsep.join((f"{sys.prefix}/bin", "/usr/local/bin", "/usr/bin", "/bin")),
        "HOME": "/tmp",  # noqa: S108 - a private tmpfs on the rung that matters
        "TMPDIR": "/tmp",  # noqa: S108
        "USER": "agent",
        "LOGNAME": "agent",
        "SHELL": "/bin/bash",
        "LANG": "C.UTF-8",
        "TERM": "dumb",
        **box.env,
    }


def limited(limits: Limits, *, processes: bool = True) -> tuple[str, ...]:
    """The launcher that sets the resource limits, to be put in front of a command."""
    return (
        program("prlimit"),
        f"--data={limits.memory}",
        f"--as={limits.memory * 4}",
        *((f"--nproc={limits.processes}",) if processes else ()),
        f"--fsize={limits.file_size}",
        f"--nofile={limits.open_files}",
        f"--cpu={limits.cpu_seconds}",
        "--core=0",
        "--",
    )
