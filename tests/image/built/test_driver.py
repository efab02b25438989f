"""The host boots the image by its own driver for containers, on a real engine."""

from __future__ import annotations

import json
import os
import shlex
import time
from collections.abc import Iterator

import pytest

from agent_testing import Call, Say, ScriptedProvider
from tests.integration.host.live import Host, catalog

from .engine import IMAGE, PATIENCE, ROOT, podman, program
from .jobs import TALK, completed, told, until_ready, weigh

pytestmark = pytest.mark.timeout(300)
NAME = "boxed"
OPTIONS = (
    *("--no-healthcheck", "--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1024:1024"),
    *("--security-opt", f"seccomp={ROOT / 'images/seccomp.json'}"),
)


@pytest.fixture(scope="module")
def provider() -> Iterator[ScriptedProvider]:
    with ScriptedProvider(models=("big-1", "vectors-1")) as provider:
        yield provider


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory, provider: ScriptedProvider) -> Iterator[Host]:
    assert os.geteuid() == 0, "the container test runs as root: it gives sockets and secrets to the guest's user"
    folder = tmp_path_factory.mktemp("driver")
    with Host(
        folder / "data",
        MESH_MODELS=catalog(folder, provider),
        UPSTREAM_KEY="sk-never-in-the-guest",
        MESH_HOST="off",
        MESH_LISTEN=f"unix:{folder / 'mesh.sock'}",
        MESH_LISTENER_URL=f"unix:{folder / 'work.sock'}",
        MESH_CONTAINER_IMAGE=IMAGE,
        MESH_CONTAINER_ENGINE=shlex.join(program()),
        MESH_CONTAINER_OPTIONS=shlex.join(OPTIONS),
        MESH_START_TIMEOUT=PATIENCE / 2,
        AGENT_CONFINEMENT="required",
    ) as host:
        host.operator.timeout = PATIENCE
        made = host.operator.post("/workspaces", json={"id": NAME, "driver": "container"})
        assert made.status_code == 201, made.text
        switch(host, "start")
        yield host
        switch(host, "stop")
    assert running() == []


def switch(host: Host, what: str) -> None:
    reply = host.operator.post(f"/workspaces/{NAME}/{what}")
    assert reply.is_success, reply.text
    if what == "start":
        until_ready(host, NAME)


def running() -> list[str]:
    """The containers that run by the driver's names."""
    return podman("ps", "--filter", "name=^agent-[0-9a-f]{12}$", "--format", "{{.Names}}").split()


def inside(host: Host, *argv: str) -> str:
    done = host.operator.post(f"/workspaces/{NAME}/exec", json={"argv": argv}).json()
    assert done["code"] == 0, done
    return done["stdout"]


def test_a_job_a_restart_and_the_session_goes_on(host: Host, provider: ScriptedProvider) -> None:
    provider.script.replace([Call("create_skill", weigh(factor=2)), Call("weigh", {"words": "walnut"}), Say("12.")])
    assert completed(host, NAME, "job", "How much does a walnut weigh?") == "12."
    assert '"grams":12' in told(provider)[-1]
    before = json.loads(inside(host, "python", "-c", TALK))
    assert "How much does a walnut weigh?" in json.dumps(before)
    switch(host, "stop")
    assert running() == []
    switch(host, "start")
    assert json.loads(inside(host, "python", "-c", TALK)) == before


def test_it_is_held(host: Host) -> None:
    assert inside(host, "id", "-u").strip() == "10001"
    assert inside(host, "ls", "/sys/class/net").split() == ["lo"]
    environment = inside(host, "cat", "/proc/1/environ")
    assert "sk-never" not in environment
    assert "TOKEN=" not in environment
    [name] = running()
    held = json.loads(podman("inspect", name))[0]
    assert held["HostConfig"]["ReadonlyRootfs"] is True
    assert held["HostConfig"]["NetworkMode"] == "none"
    assert held["EffectiveCaps"] in (None, [])
    assert '"event": "ready"' in host.operator.get(f"/workspaces/{NAME}/console").json()["console"]


def test_one_that_is_killed_comes_back_with_what_it_knew(host: Host, provider: ScriptedProvider) -> None:
    [name] = running()
    before = podman("inspect", "--format", "{{.Id}}", name)
    podman("kill", "--signal", "KILL", name)
    deadline = time.monotonic() + PATIENCE
    while host.operator.get(f"/workspaces/{NAME}").json()["state"] != "running" or not running():
        assert time.monotonic() < deadline, host.process.output()
        time.sleep(0.1)
    assert podman("inspect", "--format", "{{.Id}}", name) != before
    until_ready(host, NAME)
    provider.script.replace([Call("weigh", {"words": "nut"}), Say("6.")])
    assert completed(host, NAME, "after", "And a nut?") == "6."
    assert '"grams":6' in told(provider)[-1]


def test_quarantine_ends_it_and_nothing_is_delivered(host: Host, provider: ScriptedProvider) -> None:
    provider.clear()
    switch(host, "quarantine")
    assert running() == []
    request = {"request_id": "fenced", "content": "Are you there?"}
    reply = host.operator.post("/work", json={"workspace": NAME, "request": request})
    assert (reply.status_code, reply.json()["status"]) == (202, "queued"), reply.text
    assert host.operator.get(f"/workspaces/{NAME}").json()["mediationReady"]["ready"] is False
    assert host.operator.get("/work/fenced").json()["status"] == "queued"
    assert provider.completions == []
