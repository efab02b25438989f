"""What the built image of the bots promises, and that it starts without any help."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from .engine import PATIENCE, podman
from .test_host_image import HELD

IMAGE = "localhost/agent-bots:latest"
UID = 10003
OTHERS = (
    "import importlib.util as i; print([i.find_spec(one) for one in ('agent_runtime', 'agent_host', 'agent_testing')])"
)
BOTS = """\
bots:
- {name: a, platform: telegram, token_file: telegram, base_url: 'http://127.0.0.1:9', workspaces: [agent]}
- {name: b, platform: discord, token_file: discord, base_url: 'http://127.0.0.1:9', workspaces: [agent]}
"""
TOKEN = "123456:secret-of-the-platform"


def inside(*command: str) -> str:
    """What a program prints in a container of its own."""
    return podman("run", "--rm", *HELD, "--entrypoint", command[0], IMAGE, *command[1:])


@pytest.fixture
def running(tmp_path: Path) -> Iterator[str]:
    """A container with a bot on each platform, neither of which answers."""
    for name, text in {"bots.yaml": BOTS, "telegram": TOKEN, "discord": f"x{TOKEN}", "mesh": "token"}.items():
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o644)  # the bots are another user of this machine
    tmp_path.chmod(0o755)
    name = f"bots-{secrets.token_hex(4)}"
    given = ("--env", "AGENT_BOTS=/run/bots/bots.yaml", "--env", "MESH_TOKEN_FILE=/run/bots/mesh")
    podman("run", "--detach", "--name", name, *HELD, *given, "--volume", f"{tmp_path}:/run/bots:ro", IMAGE)
    yield name
    podman("rm", "--force", "--time", "0", "--volumes", name, check=False)


def test_the_configuration_is_as_promised() -> None:
    config = json.loads(podman("image", "inspect", IMAGE))[0]["Config"]
    assert config["User"] == f"{UID}:{UID}"
    assert config["Entrypoint"] == ["tini", "--", "agent-bots"]
    assert config["Volumes"] == {"/data": {}}
    assert not config.get("ExposedPorts")
    assert not [one for one in config["Env"] if "TOKEN" in one]


def test_it_has_neither_host_nor_agent() -> None:
    assert inside("/opt/bots/bin/python", "-c", OTHERS) == "[None, None, None]\n"


def test_who_is_paired_is_listed() -> None:
    assert inside("agent-bots", "people") == ""


def test_without_bots_it_says_what_is_missing() -> None:
    said = podman("run", "--rm", *HELD, IMAGE, check=False, errors=True)
    assert "no bot is configured" in said


def test_it_waits_for_its_platforms_and_ends_when_asked(running: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while "platform unavailable" not in (log := podman("logs", running, errors=True)):
        assert time.monotonic() < deadline, log
        time.sleep(0.1)
    podman("stop", "--time", "10", running)
    assert podman("inspect", "--format", "{{.State.ExitCode}}", running) == "0\n"
    assert TOKEN not in podman("logs", running, errors=True)
