"""Work over HTTP to real runtimes over the mediation channel, and back."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.host.live import PATIENCE, Host, assert_problem


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    """A host with the demo model and one running agent."""
    with Host(tmp_path_factory.mktemp("mesh")) as host:
        host.mesh.workspaces.create("a")
        host.mesh.workspaces.start("a")
        yield host


def completes(host: Host, request_id: str) -> bool:
    result = host.mesh.work.wait(request_id, PATIENCE).result
    return result is not None and result.status == "completed"


def test_a_request_is_done_by_a_runtime(host: Host) -> None:
    work: dict[str, Any] = {"workspace": "a", "request": {"request_id": "hello", "content": "Hello there"}}
    taken = host.operator.post("/work", json=work)
    assert (taken.status_code, taken.json()["request_id"]) == (202, "hello")
    assert completes(host, "hello")
    record = host.operator.get("/work/hello").json()
    assert (record["status"], record["attempts"]) == ("resulted", 1)
    assert record["result"]["status"] == "completed", record
    assert "[demo model]" in record["result"]["content"]
    again = host.operator.post("/work", json=work)
    assert (again.status_code, again.json()) == (200, record)
    work["request"]["content"] = "something else"
    assert_problem(host.operator.post("/work", json=work), 409, "work_conflict")


def test_its_stream_ends_with_the_result(host: Host) -> None:
    request = {"request_id": "s", "principal": "ann", "content": "Hello"}
    assert host.operator.post("/work", json={"workspace": "a", "request": request}).status_code == 202
    with host.operator.stream("GET", "/work/s/stream") as reply:
        assert reply.headers["content-type"].startswith("text/event-stream")
        events = [line.removeprefix("event: ") for line in reply.iter_lines() if line.startswith("event: ")]
    assert events[-1] == "result", events


def test_a_running_agent_is_ready_and_takes_constraints(host: Host) -> None:
    ready = host.operator.get("/workspaces/a").json()["mediationReady"]
    assert (ready["ready"], ready["attached"], ready["error"]) == (True, True, None), ready
    payload = {"instructions": "Say “hé <b>&</b>”.", "rules": []}
    pushed = host.operator.post("/workspaces/a/constraints", json={"version": 1, "payload": payload})
    assert pushed.status_code == 200, pushed.text
    deadline = time.monotonic() + PATIENCE
    while host.operator.get("/workspaces/a").json()["mediationReady"]["acked_version"] != 1:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    host.mesh.work.submit("a", "Hello", id="c")
    assert completes(host, "c")
    stale = {"version": 1, "payload": "others"}
    assert_problem(host.operator.post("/workspaces/a/constraints", json=stale), 409, "version_not_newer")


def test_the_trail_tells_it_all(host: Host) -> None:
    host.mesh.work.submit("a", "Hello", id="t")
    assert completes(host, "t")
    deadline = time.monotonic() + PATIENCE
    while True:
        entries = host.operator.get("/audit", params={"request_id": "t"}).json()["entries"]
        kinds = [entry["type"] for entry in entries]
        if {"signal.completed", "ack"} <= {*kinds} or time.monotonic() > deadline:
            break
        time.sleep(0.02)
    for kind in ("request", "signal.accepting", "result", "ack", "signal.completed"):
        assert kind in kinds, kinds
    assert all(entry["content"] is None for entry in entries)
    text = host.operator.get("/metrics").text
    assert 'mesh_listener_results_total{kind="completed"}' in text


def test_what_is_wrong_is_named(host: Host) -> None:
    body = {"workspace": "a", "request": {"content": "x", "color": "red"}}
    assert "request.color" in json.dumps(assert_problem(host.operator.post("/work", json=body), 422, "invalid_request"))
    unverified = {"workspace": "a", "request": {"content": "x", "principal": {"name": "bob", "verified": False}}}
    assert_problem(host.operator.post("/work", json=unverified), 422, "invalid_request")
    assert_problem(host.operator.post("/work", json={"workspace": "z", "request": {"content": "x"}}), 404, "not_found")
    assert_problem(host.operator.get("/work/none"), 404, "not_found")
    assert_problem(host.operator.post("/workspaces", json={"id": "b", "auth": "none"}), 422, "invalid_request")
    with host.client(host.token("a")) as agent:
        assert_problem(agent.post("/work", json=body), 403, "forbidden")


@pytest.mark.slow
def test_quarantine_contains_and_start_refuses(tmp_path: Path) -> None:
    with Host(tmp_path) as host:
        host.mesh.workspaces.create("q")
        host.mesh.workspaces.start("q")
        held = host.operator.post("/workspaces/q/quarantine", json={"reason": "odd"}).json()
        assert (held["state"], held["mediationReady"]["code"]) == ("stopped", "quarantined")
        host.mesh.work.submit("q", "Hello", id="w")
        assert_problem(host.operator.post("/workspaces/q/start"), 409, "quarantined")
        host.start()
        assert_problem(host.operator.post("/workspaces/q/start"), 409, "quarantined")
        host.mesh.workspaces.unquarantine("q")
        assert host.mesh.work.get("w").status == "queued"
        host.mesh.workspaces.start("q")
        assert completes(host, "w")
