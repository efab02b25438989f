"""The host boots the image by its own driver for containers, on a real engine."""

from __future__ import annotations

import json
import os
import shlex
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from agent_host.gateway.connections import MAX_IDLE
from agent_testing import Call, Hang, Say, ScriptedProvider
from tests.e2e.host.gateway_uses import agent, check_quarantine_cuts_streams, use_everything
from tests.integration.host.live import Host, catalog

from .engine import IMAGE, LAUNCHED, PATIENCE, podman, program
from .jobs import TALK, completed, hand_in, the_one_answer, told, until_ready, weigh

pytestmark = pytest.mark.timeout(300)
NAME = "boxed"


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
        MESH_CONTAINER_OPTIONS=shlex.join(LAUNCHED),
        MESH_START_TIMEOUT=PATIENCE / 2,
        AGENT_CONFINEMENT="required",
    ) as host:
        host.operator.timeout = PATIENCE
        made = host.operator.post(
            "/workspaces", json={"id": NAME, "driver": "container", "settings": {"AGENT_ROLE": "editor"}}
        )
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


def until_running(host: Host) -> None:
    """Until the host has adopted it; its work may end before that."""
    deadline = time.monotonic() + PATIENCE
    while host.operator.get(f"/workspaces/{NAME}").json()["state"] != "running":
        assert time.monotonic() < deadline, host.process.output()
        time.sleep(0.1)


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
    assert "AGENT_ROLE=editor\0" in environment
    assert "sk-never" not in environment
    assert "TOKEN=" not in environment
    [name] = running()
    held = json.loads(podman("inspect", name))[0]
    assert held["HostConfig"]["ReadonlyRootfs"] is True
    assert held["HostConfig"]["NetworkMode"] == "none"
    assert held["EffectiveCaps"] in (None, [])
    assert '"event": "ready"' in host.operator.get(f"/workspaces/{NAME}/console").json()["console"]


def test_a_deleted_one_leaves_nothing(host: Host) -> None:
    sockets = set((host.data_dir / "vm").iterdir())
    made = host.operator.post("/workspaces", json={"id": "brief", "driver": "container"}).json()
    assert host.operator.post("/workspaces/brief/start").status_code == 200
    script = "mkdir -p /data/a/b && ln -s /etc /data/a/etc && chmod 0 /data/a/b"
    reply = host.operator.post("/workspaces/brief/exec", json={"argv": ["sh", "-c", script]})
    assert reply.json()["code"] == 0, reply.text
    assert host.operator.delete("/workspaces/brief").json()["code"] == "running"
    assert len(running()) == 2
    reply = host.operator.delete("/workspaces/brief", params={"force": True})
    assert reply.status_code == 204, reply.text
    assert len(podman("ps", "--all", "--quiet", "--filter", "name=^agent-[0-9a-f]{12}$").split()) == 1
    assert not Path(made["data_dir"]).exists()
    assert set((host.data_dir / "vm").iterdir()) == sockets


def test_its_api_is_used_through_the_host(host: Host, provider: ScriptedProvider) -> None:
    with agent(host, NAME) as boxed:
        use_everything(boxed, provider, NAME)


def test_what_the_guest_puts_in_place_of_its_socket_leads_nowhere(host: Host) -> None:
    inside(host, "ln", "-sf", "/run/mesh/v.sock_8420", "/run/api/agent.sock")
    api = f"/workspaces/{NAME}/api"
    with ExitStack() as streams:  # they take the connections that were kept
        opened = [streams.enter_context(host.operator.stream("GET", f"{api}/events")) for _ in range(MAX_IDLE + 1)]
        assert (opened[-1].status_code, json.loads(opened[-1].read())["code"]) == (502, "agent_unreachable")
    switch(host, "stop")
    switch(host, "start")
    assert host.operator.get(f"/workspaces/{NAME}/api/status").status_code == 200


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


def test_a_host_that_is_killed_finds_its_container_and_its_work_goes_on(host: Host, provider: ScriptedProvider) -> None:
    shape = "{{.Id}} {{.State.StartedAt}}"
    before = podman("inspect", "--format", shape, *running())
    provider.clear()
    provider.script.replace([Call("bash", {"command": "echo mark >> marks"}), Hang()], otherwise=Say("It is done."))
    assert hand_in(host, NAME, "held", "Leave a mark.")[0] == 202
    provider.wait_for(2, PATIENCE)  # the mark is made, the next step has begun
    host.process.kill9()
    provider.release()
    host.start()
    host.operator.timeout = PATIENCE
    assert the_one_answer(host, "held") == "It is done."
    assert host.operator.get("/work/held").json()["attempts"] == 1
    until_running(host)
    assert inside(host, "cat", "/data/workspace/marks") == "mark\n"
    assert podman("inspect", "--format", shape, *running()) == before
    [row] = [row for row in audit(host) if row["type"] in ("adopted", "restored")]
    assert row["type"] == "adopted"


def test_what_is_adopted_still_has_its_old_settings(host: Host) -> None:
    changed = host.operator.patch(f"/workspaces/{NAME}", json={"settings": {"AGENT_ROLE": "reader"}})
    assert changed.json()["restart_needed"] is True, changed.text
    host.process.kill9()
    host.start()
    host.operator.timeout = PATIENCE
    until_running(host)
    assert host.operator.get(f"/workspaces/{NAME}").json()["restart_needed"] is True
    assert "AGENT_ROLE=editor\0" in inside(host, "cat", "/proc/1/environ")
    switch(host, "stop")
    switch(host, "start")
    assert host.operator.get(f"/workspaces/{NAME}").json()["restart_needed"] is False
    assert "AGENT_ROLE=reader\0" in inside(host, "cat", "/proc/1/environ")


def test_a_container_that_is_not_meant_to_run_is_ended(host: Host) -> None:
    host.process.kill9()
    assert len(running()) == 1
    host.env["MESH_RESTORE"] = "false"
    host.start()
    host.operator.timeout = PATIENCE
    deadline = time.monotonic() + PATIENCE
    while running():
        assert time.monotonic() < deadline, host.process.output()
        time.sleep(0.1)
    switch(host, "start")


def audit(host: Host) -> list[dict[str, Any]]:
    return host.operator.get("/audit", params={"workspace": NAME, "limit": 1000}).json()["entries"]


def test_quarantine_cuts_open_streams(host: Host, provider: ScriptedProvider) -> None:
    switch(host, "stop")
    check_quarantine_cuts_streams(host, provider, NAME)
    switch(host, "start")


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
