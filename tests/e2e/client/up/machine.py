"""A fresh machine of a user: a home folder and an environment of its own, and the command `agent` in it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from agent_client.cli.context_file import Context
from tests.measured import MEASURED

from ...live import PATIENCE

AGENT = (sys.executable, "-m", "agent_client")
_KEPT = ("PATH", "LANG", "PYTHONPATH")


@dataclass
class Machine:
    """Ports are free ones, so that machines of other tests are not in the way."""

    folder: Path
    env: dict[str, str] = field(default_factory=dict[str, str])

    def __post_init__(self) -> None:
        self.home, self.project = self.folder / "home", self.folder / "project"
        for path in (self.home, self.project):
            path.mkdir()
        kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
        ports = {"MESH_PORT": "0", "MESH_LISTENER_URL": "tcp://127.0.0.1:0"}
        self.env = {
            **kept,
            "HOME": str(self.home),
            "MESH_STOP_GRACE": "2",
            "AGENT_DRAIN_GRACE": "1",
            **ports,
            **MEASURED,
            **self.env,
        }
        self.data = self.home / ".local/share/agent-mesh"

    def agent(self, *arguments: str, cwd: Path | None = None, **env: str) -> subprocess.CompletedProcess[str]:
        """Run the command to its end. A variable that is empty counts as unset."""
        return subprocess.run(
            [*AGENT, *arguments],
            env={name: value for name, value in {**self.env, **env}.items() if value},
            cwd=cwd or self.project,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE * 2,
            check=False,
        )

    def host(self, *arguments: str) -> str:
        """What a command of `agent-host` prints, which succeeds."""
        command = [sys.executable, "-m", "agent_host", *arguments]
        done = subprocess.run(command, env=self.env, capture_output=True, text=True, timeout=PATIENCE, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def up(self, *arguments: str, cwd: Path | None = None, **env: str) -> dict[str, Any]:
        """`agent up` that succeeds; its JSON."""
        ended = self.agent("up", "--json", *(arguments or ("--yes",)), cwd=cwd, **env)
        assert ended.returncode == 0, ended.stderr
        return json.loads(ended.stdout)

    def down(self) -> None:
        ended = self.agent("down")
        assert ended.returncode == 0, ended.stderr

    def host_pid(self) -> int:
        return json.loads((self.data / "host.lock").read_bytes())["pid"]

    def token(self) -> str:
        return (self.data / "tokens" / "operator").read_text().strip()

    def operator(self) -> httpx.Client:
        """A client of the host, for its operator."""
        url = json.loads((self.data / "host.lock").read_bytes())["url"]
        headers = {"authorization": f"Bearer {self.token()}"}
        return httpx.Client(base_url=url, headers=headers, timeout=PATIENCE, trust_env=False)

    def contexts(self) -> list[Context]:
        known = json.loads((self.home / ".config/agent/contexts.json").read_bytes())
        return [Context(**one) for one in known["contexts"]]

    def findings(self, *arguments: str, **env: str) -> tuple[int, dict[str, dict[str, Any]]]:
        """The exit code of `agent doctor`, and what it found by name; of several the worst."""
        ended = self.agent("doctor", "--json", *arguments, cwd=None, **env)
        found: dict[str, dict[str, Any]] = {}
        assert ended.stdout, ended.stderr
        for one in json.loads(ended.stdout)["findings"]:
            if found.get(one["name"], {"state": "ok"})["state"] == "ok":
                found[one["name"]] = one
        return ended.returncode, found
