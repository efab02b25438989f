"""Containers of the built image, held as docs/reference/image.md says: by podman and runc, without a network."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

ROOT = Path(__file__).parents[3]
FOLDER = Path(os.environ["IMAGE_DIR"]).absolute()
IMAGE = "localhost/agent-runtime:latest"
UID = 10001
PATIENCE = 60.0
"""Seconds after which a wait has failed: other work may share the machine."""
HELD = (
    *("--network", "none", "--read-only", "--user", f"{UID}:{UID}", "--memory", "512m"),
    *("--cap-drop", "all", "--security-opt", "no-new-privileges"),
    *("--security-opt", f"seccomp={ROOT / 'images/seccomp.json'}"),
    *("--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1024:1024"),  # podman's own are above what some machines allow
)

LAUNCHED = (
    *("--no-healthcheck", "--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1024:1024"),
    *("--security-opt", f"seccomp={ROOT / 'images/seccomp.json'}"),
)
"""What the host's own driver is told besides."""


def program() -> tuple[str, ...]:
    """Podman on the images that were built, told what suits a machine without systemd."""
    store = (FOLDER / "store.options").read_text().splitlines()
    return ("podman", *store, "--cgroup-manager", "cgroupfs", "--events-backend", "file", "--runtime", "runc")


def podman(*arguments: str | Path, check: bool = True, errors: bool = False) -> str:
    """What podman prints, on request with what it prints to stderr. A failure is the test's."""
    done = subprocess.run((*program(), *arguments), check=False, capture_output=True, text=True, timeout=PATIENCE)
    assert not check or done.returncode == 0, f"podman {arguments}: {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout + (done.stderr if errors else "")


def inside(*command: str, options: tuple[str, ...] = ()) -> str:
    """What a program prints in a container of its own."""
    return podman("run", "--rm", "--no-healthcheck", *HELD, *options, "--entrypoint", command[0], IMAGE, *command[1:])


def image() -> dict[str, Any]:
    return json.loads(podman("image", "inspect", IMAGE))[0]


class Container:
    """One container over the life of a block; its volume may outlive it."""

    def __init__(self, *options: str, **settings: object) -> None:
        self.name = f"agent-{secrets.token_hex(4)}"
        given = (part for name, value in settings.items() for part in ("--env", f"{name}={value}"))
        how = ("run", "--detach", "--no-healthcheck", "--name", self.name)
        self._run = (*how, *HELD, *given, *options, IMAGE)

    def __enter__(self) -> Self:
        podman(*self._run)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if kind is not None:
            print(self.output())
        podman("rm", "--force", "--time", "0", "--volumes", self.name, check=False)

    def output(self) -> str:
        return podman("logs", self.name, check=False, errors=True)

    def run(self, *command: str) -> str:
        return podman("exec", self.name, *command)

    def wait_for_output(self, text: str) -> None:
        deadline = time.monotonic() + PATIENCE
        while text not in (seen := self.output()):
            assert time.monotonic() < deadline, f"no {text!r} in:\n{seen}"
            time.sleep(0.2)

    def server(self) -> tuple[int, dict[str, str]]:
        """The server's process on this machine, and its /proc/PID/status."""
        first = int(podman("inspect", "--format", "{{.State.Pid}}", self.name))
        [child] = map(int, Path(f"/proc/{first}/task/{first}/children").read_text().split())
        lines = Path(f"/proc/{child}/status").read_text().splitlines()
        return child, {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}

    def kill(self) -> None:
        """SIGKILL to all of it, and nothing left but its volume."""
        podman("kill", "--signal", "KILL", self.name)

    def stop(self) -> int:
        """SIGTERM, and the exit code that follows."""
        podman("stop", "--time", "20", self.name)
        return int(podman("inspect", "--format", "{{.State.ExitCode}}", self.name))
