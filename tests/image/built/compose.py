"""compose.yaml, run by podman-compose on the images that were built."""

from __future__ import annotations

import json
import os
import secrets
import shlex
import socket
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx
import yaml

from .engine import PATIENCE, ROOT, podman, program

SERVICES = ("enrol", "mesh", "agent")
KEY = "sk-of-the-provider"
ULIMITS = "--ulimit nofile=1024:1024 --ulimit nproc=1024:1024"
"""Podman's own are above what some machines allow."""


class Project:
    """One project of compose, with a port and volumes of its own. There is a key, but the demo model answers."""

    def __init__(self, folder: Path) -> None:
        self.name, self.port = f"agents{secrets.token_hex(3)}", _free_port()
        engine, key, changes = folder / "podman", folder / "provider.key", folder / "test.yaml"
        self.bots_folder = folder / "bots"
        self.bots_folder.mkdir()
        engine.write_text(f'#!/bin/sh\nexec {shlex.join(program())} "$@"\n')
        engine.chmod(0o700)
        key.write_text(KEY)
        key.chmod(0o644)  # the mesh is another user of this machine
        changes.write_text(yaml.safe_dump(_changes()))
        files = (ROOT / "compose.yaml", ROOT / "compose.provider.yaml", changes)
        options = ("--podman-path", str(engine), "--in-pod", "false", f"--podman-run-args={ULIMITS}")
        named = (part for path in files for part in ("-f", str(path)))
        self._compose = (str(Path(sys.executable).with_name("podman-compose")), *options, "-p", self.name, *named)
        given = {"MESH_PORT": str(self.port), "PROVIDER_KEY_FILE": str(key), "BOTS_FOLDER": str(self.bots_folder)}
        self._env = {**os.environ, **given}

    def __enter__(self) -> Self:
        with ExitStack() as undo:
            undo.callback(self._down)
            self.up()
            undo.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if kind is not None:
            print(*(podman("logs", self.container(one), check=False, errors=True) for one in SERVICES), sep="\n")
        self._down()

    def _down(self) -> None:
        self.run("--profile", "bots", "down", "--volumes", "--timeout", "5")

    def up(self, *options: str) -> None:
        self.run(*options, "up", "--detach", "--no-build")

    def run(self, *command: str) -> str:
        done = subprocess.run(
            (*self._compose, *command),
            cwd=ROOT,
            env=self._env,
            check=False,
            capture_output=True,
            text=True,
            timeout=3 * PATIENCE,
        )
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        return done.stdout

    def container(self, service: str) -> str:
        return f"{self.name}_{service}_1"

    def inside(self, service: str, *command: str) -> str:
        return podman("exec", self.container(service), *command)

    def inspect(self, service: str) -> dict[str, Any]:
        return json.loads(podman("inspect", self.container(service)))[0]

    def operator(self) -> httpx.Client:
        token = self.inside("mesh", "cat", "/data/tokens/operator").strip()
        return httpx.Client(
            base_url=f"http://127.0.0.1:{self.port}",
            headers={"authorization": f"Bearer {token}"},
            timeout=PATIENCE,
            trust_env=False,
        )


def _changes() -> dict[str, Any]:
    """No health checks, which podman leaves to systemd, and the demo model in spite of the key. The bots have the
    network of the mesh, because not every podman has names for services."""
    services: dict[str, Any] = {name: {"healthcheck": {"disable": True}} for name in SERVICES}
    services["mesh"]["environment"] = {"MESH_PROVIDER": "demo"}
    services["bots"] = {"network_mode": "service:mesh", "environment": {"MESH_URL": "http://127.0.0.1:8420"}}
    return {"services": services}


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]
