"""What the built image of the host promises, and that it works without any help."""

from __future__ import annotations

import json
import secrets
from typing import Any

import pytest

from .engine import ROOT, podman
from .test_promises import LINE, LOOK

IMAGE = "localhost/agent-host:latest"
UID, GID = 10002, 10001
HELD = (
    *("--network", "none", "--read-only", "--cap-drop", "all", "--security-opt", "no-new-privileges"),
    *("--security-opt", f"seccomp={ROOT / 'images/seccomp.json'}", "--no-healthcheck"),
    *("--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1024:1024"),
)
ASK = "import urllib.request as r; print(r.urlopen('http://127.0.0.1:8420/readyz').status)"
RUNTIME = "import importlib.util as i; print(i.find_spec('agent_runtime'))"


def inside(*command: str) -> str:
    """What a program prints in a container of its own."""
    return podman("run", "--rm", *HELD, "--entrypoint", command[0], IMAGE, *command[1:])


@pytest.fixture(scope="module")
def seen() -> dict[str, Any]:
    return json.loads(inside("/opt/mesh/bin/python", "-c", LOOK.read_text()))


def test_the_configuration_is_as_promised() -> None:
    about = json.loads(podman("image", "inspect", IMAGE))[0]
    config = about["Config"]
    assert config["User"] == f"{UID}:{GID}"
    assert config["Entrypoint"] == ["tini", "--", "agent-host"]
    assert config["Volumes"] == {"/data": {}}
    assert set(config["ExposedPorts"]) == {"8420/tcp", "9900/tcp"}
    assert about["Healthcheck"]["Test"] == ["CMD", "agent-healthz", "MESH", "8420"]
    assert config["Labels"]["org.opencontainers.image.title"] == "agent-host"


def test_there_is_nothing_that_installs_or_compiles_and_no_runtime(seen: dict[str, Any]) -> None:
    assert (seen["found"], seen["bits"], seen["missing"], seen["timed"]) == ([], [], [], [])
    assert (seen["uid"], seen["writable"]) == (UID, ["/data", "/tmp"])
    assert inside("/opt/mesh/bin/python", "-c", RUNTIME).strip() == "None"


def test_it_has_the_packages_of_the_lock() -> None:
    bill = json.loads(inside("cat", "/usr/share/agent-host/sbom.cdx.json"))
    listed = {part["name"]: part["version"] for part in bill["components"]}
    lines = LINE.findall((ROOT / "requirements/host.lock").read_text())
    locked = {name: version for name, version, where in lines if "sys_platform ==" not in where}
    assert {"sqlalchemy", "alembic"} <= locked.keys()
    assert {name: listed.get(name) for name in locked} == locked


def test_it_runs_held_and_stops_in_order() -> None:
    name = f"mesh-{secrets.token_hex(4)}"
    podman("run", "--detach", "--name", name, *HELD, IMAGE)
    try:
        podman("exec", name, "sh", "-c", "until agent-healthz MESH 8420 2>/dev/null; do sleep 0.2; done")
        assert podman("exec", name, "python", "-c", ASK).strip() == "200"
        podman("stop", "--time", "20", name)
        assert podman("inspect", "--format", "{{.State.ExitCode}}", name).strip() == "0"
    finally:
        podman("rm", "--force", "--time", "0", "--volumes", name, check=False)
