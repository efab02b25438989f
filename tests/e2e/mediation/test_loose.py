"""The loose dialect on the wire, in both directions: live ends, and every line as it was sent."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from agent_testing import Fail, Say
from tests.e2e.conftest import Start
from tests.integration.host.live import Host as Mesh
from tests.integration.host.live import assert_problem
from tests.ports import free_port

from .host import Host, Peer
from .test_guest import mediated


def asked(request_id: str, content: Any = "ping") -> dict[str, Any]:
    """A request in the loose dialect."""
    return {"request_id": request_id, "principal": "operator", "content": content}


def told(request_id: str, **result: Any) -> list[dict[str, Any]]:
    """What a loose agent sends about a request, word for word."""
    return [
        {"signal": "accepting", "request_id": request_id},
        {"request_id": request_id, **result},
        {"signal": "completed", "request_id": request_id},
    ]


def test_our_agent_speaks_as_the_guides_does(start: Start, host: Host) -> None:
    agent = mediated(start, host, AGENT_MEDIATION_DIALECT="loose")
    peer = host.accept()
    peer.send(asked("one", "say:pong"), asked("two", {"task": 1}), asked("three"))
    agent.provider.script.replace([Say("pong"), Say('{"result": {"total": 42}}'), *[Fail(400, "no such model")] * 4])
    lines = [peer.line() for _ in range(10)]
    assert lines[0] == {"signal": "ready"}
    assert lines[1:4] == told("one", ok=True, content="pong")
    second = lines[5] or {}
    assert (second.keys(), second["ok"]) == ({"request_id", "ok", "content"}, True)
    assert json.loads(second["content"])["result"] == {"total": 42}
    third = lines[8] or {}
    assert (third.keys(), third["ok"]) == ({"request_id", "ok", "content", "error"}, False)
    assert third["error"].startswith("unknown_model: "), third
    peer.reset()
    broken = host.accept().line() or {}
    assert broken.keys() == {"signal", "detail"}
    assert broken["signal"] == "mediation_broken"


@pytest.fixture(scope="module")
def mesh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mesh]:
    with Mesh(tmp_path_factory.mktemp("mesh"), MESH_AUDIT_CONTENT="true") as mesh:
        yield mesh


def test_our_host_speaks_as_the_guides_does(mesh: Mesh) -> None:
    port = free_port()
    loose = {"id": "loose", "driver": "external", "dialect": "loose", "listen": f"tcp://127.0.0.1:{port}"}
    made = mesh.operator.post("/workspaces", json=loose)
    assert made.status_code == 201, made.text
    assert made.json()["mediation_key"] is None
    started = mesh.operator.post("/workspaces/loose/start")
    assert started.status_code == 200, started.text
    with socket.create_connection(("127.0.0.1", port)) as connection:
        peer = Peer(connection)
        peer.send({"signal": "ready"})
        for name, given, content in (
            ("words", {"principal": "ann", "content": "ping"}, "ping"),
            ("json", {"principal": "ann", "content": '{"a": 1}', "content_kind": "json"}, {"a": 1}),
        ):
            body = {"workspace": "loose", "request": {"request_id": name, **given}}
            assert mesh.operator.post("/work", json=body).status_code == 202
            assert peer.line() == {"request_id": name, "principal": "ann", "content": content}
            peer.send(*told(name, ok=name == "words", content="pong"))
        ends = [mesh.operator.get(f"/work/{name}/stream").text.rsplit("data: ", 1)[1] for name in ("words", "json")]
    results = [json.loads(end)["result"] for end in ends]
    assert [(one["status"], one["content"]) for one in results] == [("completed", "pong"), ("failed", "pong")]


def test_both_our_ends_speak_it_to_each_other(mesh: Mesh) -> None:
    listen = f"tcp://127.0.0.1:{free_port()}"
    made = mesh.operator.post("/workspaces", json={"id": "w", "dialect": "loose", "listen": listen})
    assert made.status_code == 201, made.text
    assert mesh.operator.post("/workspaces/w/start").status_code == 200
    body = {"workspace": "w", "request": {"request_id": "r", "content": "Hello"}}
    assert mesh.operator.post("/work", json=body).status_code == 202
    end = json.loads(mesh.operator.get("/work/r/stream").text.rsplit("data: ", 1)[1])
    assert end["result"]["status"] == "completed", end
    assert "[demo model]" in end["result"]["content"]
    rows = mesh.operator.get("/audit", params={"workspace": "w"}).json()["entries"]
    lines = [json.loads(row["content"]) for row in rows if row["content"]]
    assert lines[0] == {"signal": "ready"}
    assert lines[1] == {"request_id": "r", "principal": "operator", "content": "Hello"}
    assert lines[2:5] == told("r", ok=True, content=end["result"]["content"])


def test_what_the_dialect_cannot_say_is_refused(mesh: Mesh) -> None:
    listen = f"tcp://127.0.0.1:{free_port()}"
    mesh.operator.post("/workspaces", json={"id": "few", "driver": "external", "dialect": "loose", "listen": listen})
    cases: list[tuple[dict[str, Any], str]] = [
        ({"bounds": {"max_tokens": 10}}, "request.bounds.max_tokens"),
        ({"bounds": {"max_tool_calls": 10}}, "request.bounds.max_tool_calls"),
        ({"principal": {"name": "ann", "authorization_scope": ["read"]}}, "request.principal.authorization_scope"),
    ]
    for more, named in cases:
        body = {"workspace": "few", "request": {"content": "Hello", **more}}
        assert named in json.dumps(assert_problem(mesh.operator.post("/work", json=body), 422, "invalid_request"))


def test_an_agent_that_can_prove_nothing_is_not_asked_for_a_proof(mesh: Mesh) -> None:
    bodies = ({"auth": "hmac", "listen": f"tcp://127.0.0.1:{free_port()}"}, {})
    for body, named in zip(bodies, ("auth", "listen"), strict=True):
        reply = mesh.operator.post("/workspaces", json={"id": "none", "dialect": "loose", **body})
        assert named in json.dumps(assert_problem(reply, 422, "invalid_request")["detail"])
