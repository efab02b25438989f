"""The command `agent` as a process, beside a live host with the workspace `ada` and a scripted model."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from agent_client.sync import SyncMesh
from agent_testing import ScriptedProvider
from tests.integration.host.live import OPERATOR, PATIENCE, Host, catalog
from tests.measured import MEASURED

COMMAND = [sys.executable, "-m", "agent_client"]


@dataclass(frozen=True, slots=True)
class Done:
    """A command that has ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def rows(self) -> list[list[str]]:
        """The rows of a table that is piped."""
        return [line.split("\t") for line in self.out.splitlines()]


class Cli:
    """Runs the command with a home of its own, piped: `cli("ps", "--json")`."""

    def __init__(self, home: Path, **environment: str) -> None:
        self.env = {**os.environ, "HOME": str(home), "XDG_CONFIG_HOME": str(home / "config"), **environment}

    def __call__(self, *argv: str, code: int = 0, stdin: str | None = None, cwd: Path | None = None) -> Done:
        given: dict[str, Any] = {"stdin": subprocess.DEVNULL} if stdin is None else {"input": stdin}
        done = subprocess.run(
            [*COMMAND, *argv],
            env=self.env,
            cwd=cwd,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
            **given,
        )
        assert done.returncode == code, f"{argv} ended with {done.returncode}\n{done.stdout}\n{done.stderr}"
        assert "Traceback" not in done.stderr
        return Done(done.returncode, done.stdout, done.stderr)

    def start(self, *argv: str) -> subprocess.Popen[str]:
        """A command that goes on."""
        return subprocess.Popen(
            [*COMMAND, *argv],
            env=self.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )


@dataclass(frozen=True, slots=True)
class World:
    host: Host
    provider: ScriptedProvider


@pytest.fixture(scope="module")
def _world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("cli")
    settings = {"UPSTREAM_KEY": "sk-1", "MESH_STOP_GRACE": 2, "MESH_RESTART": "false", **MEASURED}
    with (
        ScriptedProvider() as provider,
        Host(folder / "data", MESH_MODELS=catalog(folder, provider), **settings) as host,
        SyncMesh(host.url, OPERATOR) as mesh,
    ):
        mesh.workspaces.create("ada", team="counting", settings={"AGENT_MODEL_ATTEMPTS": 1})
        assert mesh.workspaces.start("ada").state == "running"
        yield World(host, provider)


@pytest.fixture
def world(_world: World) -> Iterator[World]:
    _world.provider.script.replace(None)
    _world.provider.clear()
    yield _world
    _world.provider.release()


@pytest.fixture
def cli(world: World, tmp_path: Path) -> Cli:
    """The command as its user left it: the host is the current context, its token in a file."""
    token = tmp_path / "token"
    token.touch(mode=0o600)
    token.write_text(OPERATOR)
    cli = Cli(tmp_path, **MEASURED)
    cli("context", "add", "here", world.host.url, "--token-file", str(token))
    return cli
