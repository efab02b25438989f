"""`DELETE /workspaces/{id}`: all of a workspace goes, whenever the host dies, and nothing of it comes back."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from tests.ports import free_port

from .live import PATIENCE, Host, assert_problem

FILES = 60_000
"""So many that the host is killed while it deletes them."""


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    with Host(tmp_path_factory.mktemp("mesh"), MESH_STOP_GRACE=2) as host:
        yield host


def made(host: Host, name: str, **more: Any) -> dict[str, Any]:
    reply = host.operator.post("/workspaces", json={"id": name, **more})
    assert reply.status_code == 201, reply.text
    return reply.json()


def deleted(host: Host, name: str, **query: Any) -> None:
    reply = host.operator.delete(f"/workspaces/{name}", params=query)
    assert reply.status_code == 204, reply.text
    assert reply.content == b""
    assert host.operator.get(f"/workspaces/{name}").status_code == 404


def left(host: Host, name: str) -> list[str]:
    """What is on the disk of a workspace."""
    folders = [host.data_dir / "workspaces", host.data_dir / "tokens"]
    return [entry for folder in folders if folder.exists() for entry in os.listdir(folder) if name in entry]


def until(check: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not check():
        assert time.monotonic() < deadline
        time.sleep(0.001)


def audit(host: Host, name: str) -> list[str]:
    entries = host.operator.get("/audit", params={"workspace": name, "limit": 1000}).json()["entries"]
    return [entry["type"] for entry in entries]


@pytest.mark.slow
def test_a_workspace_goes_with_all_that_it_has(host: Host) -> None:
    workspace = made(host, "whole")
    manual = host.token("whole")
    path = Path(host.token_command("whole", "--keep"))
    scoped = host.operator.post("/tokens", json={"user": "ann", "workspaces": ["whole"]}).json()["token"]
    assert host.operator.post("/workspaces/whole/start").status_code == 200
    work = {"workspace": "whole", "request": {"request_id": "whole-1", "content": "Hello"}, "expires_in": 3600}
    assert host.operator.post("/work", json=work).status_code == 202
    problem = assert_problem(host.operator.delete("/workspaces/whole"), 409, "running")
    assert "stop it first, or add ?force=true" in problem["detail"]
    assert host.operator.post("/workspaces/whole/stop").status_code == 200
    assert Path(workspace["data_dir"], "agent.db").exists()
    assert path.exists()
    deleted(host, "whole")
    assert left(host, "whole") == []
    for token in (manual, path.read_text() if path.exists() else manual, scoped):
        with host.client(token) as client:
            assert client.get("/workspaces/whole/api/status").status_code == 401
    assert host.operator.get("/work/whole-1").json()["status"] in ("resulted", "dead")
    assert {"enrolled", "submitted", "deleted"} <= set(audit(host, "whole"))
    assert_problem(host.operator.delete("/workspaces/whole"), 404, "not_found")


def test_force_stops_what_runs(host: Host) -> None:
    made(host, "forced")
    assert host.operator.post("/workspaces/forced/start").status_code == 200
    runtime = next(
        child
        for child in psutil.Process(host.process.pid).children(recursive=True)
        if child.environ().get("AGENT_ID") == "forced"
    )
    deleted(host, "forced", force="true")
    assert not runtime.is_running()
    assert left(host, "forced") == []


def test_open_work_ends_and_its_record_is_kept(host: Host) -> None:
    made(host, "busy", driver="external")
    work = {"workspace": "busy", "request": {"request_id": "busy-1", "content": "Hello"}}
    assert host.operator.post("/work", json=work).status_code == 202
    deleted(host, "busy", force="true")
    record = host.operator.get("/work/busy-1").json()
    assert (record["status"], record["error"]) == ("dead", "no_workspace: its workspace is deleted")
    assert_problem(host.operator.post("/work", json=work), 404, "not_found")


@pytest.mark.slow
def test_the_same_id_starts_clean(host: Host) -> None:
    first = made(host, "again", team="one", settings={"AGENT_ROLE": "x"})
    both = host.operator.post("/tokens", json={"user": "ann", "workspaces": ["again", "other"]}).json()
    constraints = {"version": 7, "payload": "rules"}
    assert host.operator.post("/workspaces/again/constraints", json=constraints).status_code == 200
    assert host.operator.post("/workspaces/again/start").status_code == 200
    until(lambda: host.operator.get("/workspaces/again").json()["mediationReady"]["attached"])
    epoch = host.operator.get("/workspaces/again").json()["mediationReady"]["epoch"]
    assert epoch > 0
    with host.client(both["token"]) as ann:
        assert ann.get("/workspaces/again/api/status").status_code == 200
        deleted(host, "again", force="true")
        second = made(host, "again")
        assert host.operator.post("/workspaces/again/start").status_code == 200
        assert ann.get("/workspaces/again/api/status").status_code == 403, "it was given for the one before"
    scopes = {one["id"]: one["scope"] for one in host.operator.get("/tokens").json()["tokens"]}
    assert scopes[both["id"]]["workspaces"] == ["other"]
    assert (second["team"], second["settings"]) == ("default", {})
    assert not {second["token"], second["mediation_key"]} & {first["token"], first["mediation_key"]}
    until(lambda: host.operator.get("/workspaces/again").json()["mediationReady"]["ready"])
    ready = host.operator.get("/workspaces/again").json()["mediationReady"]
    assert ready["epoch"] > epoch, "an epoch of the one before is never given again"
    assert ready["acked_version"] is None, "its constraints are not those of the one before"


def test_an_address_of_its_own_is_free_again(host: Host) -> None:
    port = free_port()
    for name in ("first", "second"):
        made(host, name, mediation={"target": f"127.0.0.1:{port}"})
        deleted(host, name)
    with socket.socket() as free:
        free.bind(("127.0.0.1", port))


@pytest.mark.slow
def test_a_host_that_is_killed_while_it_deletes_ends_that_at_its_next_start(host: Host) -> None:
    home = Path(made(host, "huge")["data_dir"])
    home.mkdir(parents=True)
    precious = host.data_dir / "precious"
    precious.write_text("keep")
    (home / "link").symlink_to(precious)
    for number in range(FILES):
        os.close(os.open(home / str(number), os.O_CREAT | os.O_WRONLY))
    trash = home.with_name(".trash-huge")
    killer = threading.Thread(target=lambda: (until(trash.exists), host.process.kill9()))
    killer.start()
    with pytest.raises(httpx.TransportError):
        host.operator.delete("/workspaces/huge")
    killer.join()
    assert trash.exists(), "the host was killed too late for this test"
    host.start()
    until(lambda: host.operator.get("/workspaces/huge").status_code == 404)
    assert left(host, "huge") == []
    assert precious.read_text() == "keep"
    assert "deleted" in audit(host, "huge")
    made(host, "huge")


@pytest.mark.parametrize("name", ["..", "%2e%2e", "..%2fmesh.db", ".trash-x", "%00", "a%2f..%2fb"])
def test_no_other_folder_is_deleted(host: Host, name: str) -> None:
    before = sorted(os.listdir(host.data_dir))
    assert host.operator.delete(f"/workspaces/{name}").status_code in (404, 405)
    assert sorted(os.listdir(host.data_dir)) == before


def test_a_wrong_force_is_told(host: Host) -> None:
    assert_problem(host.operator.delete("/workspaces/x", params={"force": "maybe"}), 422, "invalid_request")
