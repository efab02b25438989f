"""The host's other routes: who may call them, what they answer, and one error shape."""

from __future__ import annotations

import http.client
from contextlib import closing

import httpx
import pytest

from agent_testing import ScriptedProvider

from .live import Host, assert_openai_error, assert_problem, said

OPERATOR_ROUTES = [
    ("GET", "/usage"),
    ("GET", "/workspaces"),
    ("POST", "/workspaces"),
    ("GET", "/workspaces/x"),
    ("POST", "/workspaces/x/start"),
    ("POST", "/workspaces/x/stop"),
    ("GET", "/openapi.json"),
    ("GET", "/pending"),
    ("GET", "/events"),
]


def test_probes_need_no_token(host: Host) -> None:
    with host.client(None) as anyone:
        assert anyone.get("/healthz").json() == {"status": "ok"}
        ready = anyone.get("/readyz")
    assert (ready.status_code, ready.json()) == (200, {"ready": True, "reasons": []})


@pytest.mark.parametrize(("method", "path"), OPERATOR_ROUTES)
def test_operator_routes(host: Host, agent: httpx.Client, method: str, path: str) -> None:
    with host.client(None) as anyone:
        refused = anyone.request(method, path)
    assert_problem(refused, 401, "unauthorized")
    assert refused.headers["www-authenticate"] == 'Bearer realm="mesh"'
    assert_problem(agent.request(method, path), 403, "forbidden")


def test_errors_of_all_routes_have_one_shape(host: Host) -> None:
    missing = assert_problem(host.operator.get("/nowhere"), 404, "not_found")
    assert missing["detail"].startswith("there is no route GET /nowhere; GET /healthz says")
    of_an_agent = assert_problem(host.operator.post("/chat/stream"), 404, "not_found")
    assert of_an_agent["detail"].endswith("an agent's is /workspaces/WORKSPACE/api/chat/stream here")
    assert_problem(host.operator.delete("/usage"), 405, "method_not_allowed")
    wrong = assert_problem(host.operator.get("/usage", params={"limit": "many"}), 422, "invalid_request")
    assert wrong["errors"][0]["field"] == "limit"
    assert_problem(host.operator.get("/usage", params={"limit": 1001}), 422, "invalid_request")


@pytest.mark.parametrize(
    ("method", "path"),
    [
        *(("GET", path) for path in ("/work", "/results", "/audit", "/usage", "/agents", "/artifacts")),
        ("DELETE", "/workspaces/x"),
    ],
)
def test_a_parameter_that_a_route_does_not_take_is_named(host: Host, method: str, path: str) -> None:
    """A misspelt filter would list everything."""
    wrong = host.operator.request(method, path, params={"worksapce": "x"})
    faults = assert_problem(wrong, 422, "invalid_request")["errors"]
    assert [fault["field"] for fault in faults] == ["worksapce"]


def workspace_ids(host: Host) -> list[str]:
    return [workspace["id"] for workspace in host.operator.get("/workspaces").json()["workspaces"]]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (b'{"id": ', "body"),
        (b"{}", "id"),
        (b'{"id": 7}', "id"),
        (b'{"id": "a", "colour": "red"}', "colour"),
        (b'{"id": "a b"}', "id"),
        (b'{"id": "operator"}', "id"),
        (b'{"id": "a", "driver": "teleport"}', "driver"),
        (b"[]", "body"),
    ],
)
def test_a_wrong_workspace_names_the_field(host: Host, body: bytes, field: str) -> None:
    before = workspace_ids(host)
    reply = host.operator.post("/workspaces", content=body, headers={"content-type": "application/json"})
    assert assert_problem(reply, 422, "invalid_request")["errors"][0]["field"] == field
    assert workspace_ids(host) == before


def test_unknown_workspaces(host: Host) -> None:
    for method, path in (("GET", "/workspaces/x"), ("POST", "/workspaces/x/start"), ("POST", "/workspaces/x/stop")):
        problem = assert_problem(host.operator.request(method, path), 404, "not_found")
        assert problem["detail"] == "there is no workspace 'x'"


def test_a_large_body_is_refused_here_too(host: Host) -> None:
    def grown():  # pyright: ignore
        for _ in range(33):
            yield b" " * 1024 * 1024

    with host.client(None) as anyone:
        declared = anyone.post("/workspaces", content=b" " * (32 * 1024 * 1024 + 1))
        assert_problem(declared, 413, "body_too_large")
    headers = {"content-type": "application/json", "authorization": host.operator.headers["authorization"]}
    with host.client(None) as anyone:
        assert_problem(anyone.post("/workspaces", content=grown(), headers=headers), 413, "body_too_large")


@pytest.mark.parametrize("path", ["/work", "/workspaces", "/v1/chat/completions"])
def test_a_stranger_is_answered_before_his_body_comes(host: Host, path: str) -> None:
    connection = http.client.HTTPConnection(host.url.removeprefix("http://"), timeout=60)
    with closing(connection):
        connection.putrequest("POST", path)
        connection.putheader("Content-Length", str(32 * 1024 * 1024))
        connection.endheaders()
        assert connection.getresponse().status == 401


def test_usage_is_summed_by_agent_and_model(host: Host, agent: httpx.Client, provider: ScriptedProvider) -> None:
    before = {(row["agent_id"], row["model"]): row for row in host.operator.get("/usage").json()["sums"]}
    for _ in range(3):
        assert agent.post("/v1/chat/completions", json=said("say:hi")).status_code == 200
    answer = host.operator.get("/usage", params={"agent": "writer", "limit": 2}).json()
    sums = {(row["agent_id"], row["model"]): row for row in answer["sums"]}
    calls = sums["writer", "default"]["calls"] - before.get(("writer", "default"), {"calls": 0})["calls"]
    assert calls == 3
    assert all(agent_id == "writer" for agent_id, _ in sums)
    assert len(answer["recent"]) == 2
    assert sums["writer", "default"]["usage"]["cost_usd"] > 0


@pytest.mark.slow
def test_a_token_is_revoked(host: Host) -> None:
    token = host.token("leaver")
    with host.client(token) as leaver:
        assert leaver.get("/v1/models").status_code == 200
    assert host.token_command("leaver", "--revoke") == "revoked: 1"
    with host.client(host.token("leaver")) as again:
        assert again.get("/v1/models").status_code == 200


def test_the_routes_are_described(host: Host) -> None:
    described = host.operator.get("/openapi.json").json()
    assert {"/usage", "/workspaces", "/workspaces/{workspace_id}/start", "/v1/models"} <= described["paths"].keys()
    assert host.operator.get("/docs").status_code == 404


def test_openais_shape_ends_at_its_own_paths(host: Host) -> None:
    assert_openai_error(host.operator.get("/v1"), 404, "not_found")
    assert_problem(host.operator.get("/v1x"), 404, "not_found")
