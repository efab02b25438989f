"""The built wheel on a fresh machine: installed outside of the checkout, and used as a person would."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from agent_testing import LiveProcess

ROOT = Path(__file__).parents[2]
[WHEEL] = Path(os.environ["WHEEL_DIR"]).absolute().glob("*.whl")
[SOURCE] = WHEEL.parent.glob("*.tar.gz")
PATIENCE = 60.0
INSTALL_SECONDS = 300
COMMANDS = ("agent", "agent-host", "agent-runtime")
pytestmark = pytest.mark.timeout(2 * INSTALL_SECONDS)


def run(
    *command: str | Path, cwd: Path, env: Mapping[str, str] | None = None, check: bool = True
) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        command,
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": "", **(env or {})},  # nothing of a checkout
        check=False,
        capture_output=True,
        text=True,
        timeout=INSTALL_SECONDS,
    )
    assert not check or done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the commands that `uv tool install` has made, with the versions of the lock."""
    home = tmp_path_factory.mktemp("fresh")
    where = {"UV_TOOL_DIR": str(home / "tools"), "UV_TOOL_BIN_DIR": str(home / "bin"), "HOME": str(home)}
    lock = ROOT / "requirements/all.lock"
    uv = Path(sys.executable).with_name("uv")
    run(uv, "tool", "install", "--python", sys.executable, "--constraints", lock, f"{WHEEL}[all]", cwd=home, env=where)
    return home / "bin"


@pytest.fixture
def mesh(programs: Path, tmp_path: Path) -> Iterator[httpx.Client]:
    """A host and an agent with their defaults, in folders of their own; a client of the agent."""
    env = {"HOME": str(tmp_path), "MESH_PORT": "0", "MESH_LISTENER_URL": "off", "AGENT_PORT": "0", "PYTHONPATH": ""}
    with ExitStack() as stack:
        host = stack.enter_context(LiveProcess([programs / "agent-host", "up"], env, timeout=PATIENCE, cwd=tmp_path))
        url = host.wait_for_output(r"agent-host listens on (\S+)")[1]
        token = run(programs / "agent-host", "token", "agent", "--keep", cwd=tmp_path, env=env).stdout.strip()
        env |= {"AGENT_MESH_URL": url, "AGENT_MESH_TOKEN_FILE": token}
        serve = LiveProcess([programs / "agent-runtime", "serve"], env, timeout=PATIENCE, cwd=tmp_path)
        address = stack.enter_context(serve).wait_for_output(r'"url": "(http://[^"]+)"')[1]
        yield stack.enter_context(httpx.Client(base_url=address, timeout=PATIENCE, trust_env=False))


def test_every_file_of_the_packages_is_in_wheel_and_source() -> None:
    packages = [*(path.name for path in ROOT.glob("agent_*")), "frontends"]
    files = set(run("git", "ls-files", *packages, cwd=ROOT).stdout.split())
    with zipfile.ZipFile(WHEEL) as wheel, tarfile.open(SOURCE) as source:
        assert files - set(wheel.namelist()) == set()
        names = {name.partition("/")[2] for name in source.getnames()}
    assert (files | {"LICENSE", "README.md", "CHANGELOG.md", "pyproject.toml"}) - names == set()


@pytest.mark.parametrize("name", COMMANDS)
def test_commands_know_their_version_and_their_options(programs: Path, tmp_path: Path, name: str) -> None:
    version = WHEEL.name.split("-")[1]
    assert run(programs / name, "--version", cwd=tmp_path).stdout == f"{name} {version}\n"
    assert name in run(programs / name, "--help", cwd=tmp_path).stdout


def test_host_and_agent_answer_and_run_a_command(mesh: httpx.Client) -> None:
    assert "[demo model]" in mesh.post("/chat", json={"message": "hello"}).json()["response"]
    reply = mesh.post("/chat", json={"message": "run: echo $((6 * 7))"}).json()
    assert "42" in reply["response"], reply
    assert [one["name"] for one in reply["tool_outputs"]] == ["bash"]


def test_agent_up_leads_to_a_reply_in_an_empty_home(programs: Path, tmp_path: Path) -> None:
    home, project = tmp_path / "home", tmp_path / "project"
    home.mkdir()
    project.mkdir()
    env = {"HOME": str(home), "MESH_PORT": "0", "MESH_LISTENER_URL": "tcp://127.0.0.1:0", "MESH_STOP_GRACE": "2"}

    def agent(*arguments: str) -> str:
        return run(programs / "agent", *arguments, cwd=project, env=env).stdout

    try:
        agent("up", "--provider", "demo", "--no-chat")
        host = json.loads((home / ".local/share/agent-mesh/host.lock").read_bytes())["pid"]
        assert f"{programs.parent}/tools/" in Path(f"/proc/{host}/cmdline").read_text()
        assert agent("-p", "hello").startswith("[demo model] I am a demo model")
    finally:
        stopped = agent("down")
    assert stopped.startswith("stopped the host")


def test_a_command_whose_packages_are_missing_says_what_to_install(tmp_path: Path) -> None:
    run(sys.executable, "-m", "venv", "bare", cwd=tmp_path)
    programs = tmp_path / "bare/bin"
    run(programs / "pip", "install", "--disable-pip-version-check", "--no-deps", WHEEL, cwd=tmp_path)
    for name, extra in (("agent-host", "host"), ("agent", "client")):
        done = run(programs / name, "ps", cwd=tmp_path, check=False)
        assert done.returncode == 1
        assert f"with its extra {extra!r}" in done.stderr
        assert done.stderr.count("\n") == 1
        assert run(programs / name, "--version", cwd=tmp_path).returncode == 0
