"""compose.yaml from nothing: the mesh and one agent that has neither network nor key."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from .compose import KEY, Project
from .engine import PATIENCE, podman

pytestmark = pytest.mark.timeout(300)
API = "/workspaces/agent/api"
PRY = (
    "run: cat /run/secrets/* /data/mesh.db 2>&1; ls /sys/class/net; grep -rl sk-of-the /run /data 2>/dev/null; echo end"
)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    with Project(tmp_path_factory.mktemp("compose")) as project:
        yield project


@pytest.fixture
def operator(project: Project) -> Iterator[httpx.Client]:
    with project.operator() as client:
        until_ready(client)
        yield client


def until_ready(client: httpx.Client) -> None:
    """Until the mesh answers and its agent is attached."""
    deadline = time.monotonic() + PATIENCE
    seen: Any = None
    while True:
        try:
            seen = client.get("/workspaces/agent").json()["mediationReady"]
            if seen["ready"]:
                return
        except httpx.TransportError as error:
            seen = error
        assert time.monotonic() < deadline, seen
        time.sleep(0.2)


def test_a_person_talks_to_the_agent_at_the_mesh(operator: httpx.Client) -> None:
    reply = operator.post(f"{API}/chat", json={"message": "run: echo $((6 * 7))"})
    assert reply.status_code == 200, reply.text
    assert "42" in reply.json()["response"], reply.text


def test_work_goes_over_the_channel(operator: httpx.Client) -> None:
    request = {"request_id": "r1", "content": "Hello"}
    assert operator.post("/work", json={"workspace": "agent", "request": request}).status_code == 202
    deadline = time.monotonic() + PATIENCE
    while (record := operator.get("/work/r1").json())["status"] != "resulted":
        assert time.monotonic() < deadline, record
        time.sleep(0.1)
    assert "[demo model]" in record["result"]["content"]


def test_the_key_is_the_meshs_alone_and_the_agent_has_no_network(project: Project, operator: httpx.Client) -> None:
    assert project.inside("mesh", "cat", "/run/secrets/provider_key") == KEY
    shown = operator.post(f"{API}/chat", json={"message": PRY}).json()["response"]
    assert KEY not in shown
    assert "end" in shown
    assert project.inside("agent", "ls", "/sys/class/net").split() == ["lo"]
    assert "provider_key" not in project.inside("agent", "ls", "/run", "/run/agent")
    for service in ("mesh", "agent"):
        held = project.inspect(service)
        assert held["HostConfig"]["ReadonlyRootfs"] is True
        assert held["EffectiveCaps"] in ([], None)
        status = project.inside(service, "cat", "/proc/1/status").split()
        assert (status[status.index("NoNewPrivs:") + 1], status[status.index("CapEff:") + 1]) == ("1", "0" * 16)
    for secret in (KEY, operator.headers["authorization"].removeprefix("Bearer ")):
        assert secret not in str(project.inspect("agent"))
        assert secret not in podman("logs", project.container("mesh"), errors=True)


def test_the_health_check_answers(project: Project) -> None:
    project.inside("mesh", "agent-healthz", "MESH", "8420")
    project.inside("agent", "agent-healthz")


def test_a_backup_is_made_inside(project: Project, operator: httpx.Client) -> None:
    made = project.inside("mesh", "agent-host", "backup").strip()
    assert "mesh.db" in project.inside("mesh", "ls", made)


BOTS = """\
bots:
- {name: home, platform: telegram, token_file: telegram-token, base_url: 'http://127.0.0.1:9', workspaces: [agent]}
"""
AS_A_BOT = """
import os, urllib.request
token = open(os.environ["MESH_TOKEN_FILE"]).read().strip()
headers = {"authorization": "Bearer " + token, "x-agent-user": "telegram:7"}
asked = urllib.request.Request(os.environ["MESH_URL"] + "/workspaces/agent/api/status", headers=headers)
print(urllib.request.urlopen(asked, timeout=30).status)
"""


def test_the_bots_start_when_asked_and_reach_the_agent_with_their_token(
    project: Project, operator: httpx.Client
) -> None:
    token = project.inside("mesh", "agent-host", "token", "--user", "telegram:*", "--workspaces", "agent")
    for name, text in {"bots.yaml": BOTS, "telegram-token": "1:secret-of-the-platform", "mesh-token": token}.items():
        (project.bots_folder / name).write_text(text)
        (project.bots_folder / name).chmod(0o644)  # the bots are another user of this machine
    project.up("--profile", "bots")
    deadline = time.monotonic() + PATIENCE
    while "platform unavailable" not in (log := podman("logs", project.container("bots"), errors=True)):
        assert time.monotonic() < deadline, log
        time.sleep(0.1)
    assert "secret-of-the-platform" not in log
    assert project.inside("bots", "/opt/bots/bin/python", "-c", AS_A_BOT) == "200\n"
    assert project.inside("bots", "agent-bots", "people") == ""


def test_after_a_crash_and_another_up_session_and_secrets_are_the_same(project: Project) -> None:
    with project.operator() as before:
        until_ready(before)
        before.post(f"{API}/chat", json={"message": "Remember me", "session_id": "kept"})
    secrets = project.inside("agent", "sh", "-c", "cat /run/agent/*")
    for service in ("agent", "mesh"):
        podman("kill", "--signal", "KILL", project.container(service))
    project.up()
    with project.operator() as after:
        assert after.headers["authorization"] == before.headers["authorization"]
        until_ready(after)
        messages = after.get(f"{API}/sessions/kept/messages").json()["messages"]
    assert [one["role"] for one in messages] == ["user", "assistant"]
    assert project.inside("agent", "sh", "-c", "cat /run/agent/*") == secrets
