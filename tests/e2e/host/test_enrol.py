"""`agent-host enrol`: an agent that another program boots has its secrets, and is reached by the host."""

from __future__ import annotations

import stat
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from agent_testing import LiveProcess
from tests.e2e.live import SERVE
from tests.integration.host.live import PATIENCE, UP, Host

SECRETS = ("mediation.key", "mesh", "token")


def enrol(host: Host, *options: str) -> tuple[int, str]:
    with LiveProcess([*UP[:-1], "enrol", "far", *options], host.env) as process:
        return process.wait(PATIENCE), process.output().strip()


def read(folder: Path) -> dict[str, str]:
    return {name: (folder / name).read_text() for name in SECRETS}


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    """A host that does not run yet, all of it on sockets."""
    host = Host(
        tmp_path / "data",
        MESH_HOST="off",
        MESH_LISTEN=f"unix:{tmp_path}/mesh.sock",
        MESH_LISTENER_URL=f"unix:{tmp_path}/work.sock",
        MESH_PROVIDER="demo",
    )
    yield host
    host.__exit__(None, None, None)


def agent(folder: Path, secrets: Path) -> LiveProcess:
    environment = {
        "AGENT_ID": "far",
        "AGENT_PORT": "0",
        "AGENT_DATA_DIR": f"{folder}/far",
        "AGENT_TOKEN_FILE": f"{secrets}/token",
        "AGENT_MESH_URL": f"http+unix://{quote(f'{folder}/mesh.sock', safe='')}",
        "AGENT_MESH_TOKEN_FILE": f"{secrets}/mesh",
        "AGENT_MEDIATION_URL": f"unix:{folder}/work.sock",
        "AGENT_MEDIATION_REQUIRED": "true",
        "AGENT_MEDIATION_API": "true",
        "AGENT_MEDIATION_KEY_FILE": f"{secrets}/mediation.key",
    }
    return LiveProcess(SERVE, environment)


@pytest.mark.slow
def test_an_enrolled_agent_attaches_and_is_talked_to_at_the_host(host: Host, tmp_path: Path) -> None:
    secrets = tmp_path / "secrets"
    assert enrol(host, "--secrets", str(secrets)) == (0, str(secrets))
    assert stat.S_IMODE(secrets.stat().st_mode) == 0o700
    assert {stat.S_IMODE((secrets / name).stat().st_mode) for name in SECRETS} == {0o640}
    first = read(secrets)
    host.start()
    assert enrol(host, "--secrets", str(secrets)) == (0, str(secrets))  # while the host runs
    assert read(secrets) == first
    with agent(tmp_path, secrets) as process:
        process.wait_for_output(r'"event": "ready"', PATIENCE)
        until_ready(host)
        reply = host.operator.post("/workspaces/far/api/chat", json={"message": "Hello"})
        assert "[demo model]" in reply.json()["response"], reply.text
        host.operator.post("/workspaces/far/quarantine", json={})
        assert host.operator.get("/workspaces/far/api/status").json()["code"] == "quarantined"


def until_ready(host: Host) -> None:
    deadline = time.monotonic() + PATIENCE
    while not (ready := host.operator.get("/workspaces/far").json()["mediationReady"])["ready"]:
        assert time.monotonic() < deadline, ready
        time.sleep(0.05)


@pytest.mark.slow
def test_one_that_is_stopped_gets_no_new_token(host: Host, tmp_path: Path) -> None:
    secrets = tmp_path / "secrets"
    assert enrol(host, "--secrets", str(secrets))[0] == 0
    host.start()
    assert host.operator.post("/workspaces/far/stop").json()["state"] == "stopped"
    before = read(secrets)
    code, said = enrol(host, "--secrets", str(secrets))
    assert (code, "start it first" in said) == (0, True)
    assert read(secrets) == before
    with host.client(before["mesh"].strip()) as old:
        assert old.get("/v1/models").status_code == 401
    host.operator.post("/workspaces/far/start")
    assert enrol(host, "--secrets", str(secrets))[0] == 0
    with host.client(read(secrets)["mesh"].strip()) as new:
        assert new.get("/v1/models").status_code == 200


@pytest.mark.slow
def test_what_is_wrong_is_named(host: Host, tmp_path: Path) -> None:
    secrets = ("--secrets", str(tmp_path / "secrets"))
    host.start()
    code, said = enrol(host, *secrets)
    assert (code, "another listener works on this ledger" in said) == (1, True), said
    host.operator.post("/workspaces", json={"id": "far"})
    code, said = enrol(host, *secrets)
    assert (code, "the driver process" in said) == (1, True), said
