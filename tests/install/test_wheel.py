"""The built wheel in an empty environment: both servers start from it and answer."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from agent_testing import LiveProcess

ROOT = Path(__file__).parents[2]
[WHEEL] = Path(os.environ["WHEEL_DIR"]).absolute().glob("*.whl")
PATIENCE = 60.0
INSTALL_SECONDS = 300
pytestmark = pytest.mark.timeout(2 * INSTALL_SECONDS)


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the commands in an environment that holds the wheel and what it needs, as the lock has it."""
    environment = tmp_path_factory.mktemp("fresh") / "venv"
    uv = Path(sys.executable).with_name("uv")
    python = environment / "bin/python"
    subprocess.run([uv, "venv", "--quiet", "--python", sys.executable, environment], check=True, timeout=PATIENCE)
    install = [uv, "pip", "install", "--quiet", "--python", python, "--constraints", ROOT / "requirements/dev.lock"]
    subprocess.run([*install, f"{WHEEL}[host,skills]"], check=True, timeout=INSTALL_SECONDS)
    return environment / "bin"


@pytest.fixture
def mesh(programs: Path, tmp_path: Path) -> Iterator[httpx.Client]:
    """A host and an agent with their defaults, in folders of their own; a client of the agent."""
    env = {"HOME": str(tmp_path), "MESH_PORT": "0", "MESH_LISTENER_URL": "off", "AGENT_PORT": "0"}
    with ExitStack() as stack:
        host = stack.enter_context(LiveProcess([programs / "agent-host", "up"], env, timeout=PATIENCE, cwd=tmp_path))
        url = host.wait_for_output(r"agent-host listens on (\S+)")[1]
        made = subprocess.run(
            [programs / "agent-host", "token", "agent", "--keep"],
            cwd=tmp_path,
            env={**os.environ, **env},
            check=True,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
        env |= {"AGENT_MESH_URL": url, "AGENT_MESH_TOKEN_FILE": made.stdout.strip()}
        serve = LiveProcess([programs / "agent-runtime", "serve"], env, timeout=PATIENCE, cwd=tmp_path)
        address = stack.enter_context(serve).wait_for_output(r'"url": "(http://[^"]+)"')[1]
        yield stack.enter_context(httpx.Client(base_url=address, timeout=PATIENCE, trust_env=False))


def test_every_file_of_the_packages_is_in_the_wheel(programs: Path) -> None:
    packages = [path.name for path in ROOT.glob("agent_*")]
    listed = subprocess.run(["git", "ls-files", *packages], cwd=ROOT, check=True, capture_output=True, text=True)
    [installed] = programs.parent.glob("lib/python*/site-packages")
    assert [name for name in listed.stdout.split() if not (installed / name).exists()] == []


def test_host_and_agent_answer(mesh: httpx.Client) -> None:
    assert mesh.get("/healthz").status_code == 200
    assert mesh.get("/status").json()["state"] == "idle"
