"""Scoped tokens over HTTP and on the command line: made, listed, expired, revoked, and useless for anything else."""

from __future__ import annotations

import re
from contextlib import closing
from pathlib import Path

import httpx
import pytest

from agent_host.app import create_app
from agent_host.database import open_database
from agent_host.descriptors import divide_descriptors
from agent_host.settings import HostSettings
from agent_testing import LiveProcess

from .live import UP, Host, assert_problem

PUBLIC = {("GET", "/healthz"), ("GET", "/readyz")}
FOR_PEOPLE = {("GET", "/pending"), ("GET", "/events"), ("GET", "/results")}
"""Show what is in the scope of the token; tests of their own say what that is."""


def scoped(host: Host, user: str = "ann", *workspaces: str, **more: str) -> httpx.Response:
    return host.operator.post("/tokens", json={"user": user, "workspaces": workspaces or ["a"], **more})


def test_a_scoped_token_is_shown_once_and_listed_without_its_secret(host: Host) -> None:
    made = scoped(host, "ann", "b", "a", expires="30d")
    assert made.status_code == 201, made.text
    shown = made.json()
    assert shown["scope"] == {"user": "ann", "workspaces": ["a", "b"]}
    assert shown["expires_at"] - shown["created_at"] == 30 * 86_400_000
    listing = host.operator.get("/tokens")
    assert shown["token"] not in listing.text
    [row] = [row for row in listing.json()["tokens"] if row["id"] == shown["id"]]
    assert (row["owner"], row["purpose"]) == ("user:ann", "scoped")


def test_a_token_of_several_users_is_listed_with_them_and_revoked_alone(host: Host) -> None:
    body = {"users": ["telegram:*", "discord:7", "telegram:*"], "workspaces": ["a"]}
    made, other = (host.operator.post("/tokens", json=body).json() for _ in range(2))
    assert made["scope"] == {"users": ["discord:7", "telegram:*"], "workspaces": ["a"]}
    assert made["owner"] == f"users:{made['id']}"
    [row] = [row for row in host.operator.get("/tokens").json()["tokens"] if row["id"] == made["id"]]
    assert made == {**row, "token": made["token"]}
    with host.client(other["token"]) as client:
        client.headers["x-agent-user"] = "telegram:1"
        assert client.get("/workspaces/a/api/status").status_code == 404
        assert host.operator.delete(f"/tokens/{made['id']}").status_code == 204
        assert client.get("/workspaces/a/api/status").status_code == 404
        client.headers["x-agent-user"] = "ann"
        assert "'telegram:*'" in assert_problem(client.get("/workspaces/a/api/status"), 403, "forbidden")["detail"]
        del client.headers["x-agent-user"]
        missing = assert_problem(client.get("/workspaces/a/api/status"), 422, "invalid_request")
        assert missing["errors"][0]["field"] == "X-Agent-User"


def test_a_list_of_one_name_makes_the_token_of_one_user(host: Host) -> None:
    made = host.operator.post("/tokens", json={"users": ["ann"], "workspaces": ["a"]}).json()
    assert (made["scope"], made["owner"]) == ({"user": "ann", "workspaces": ["a"]}, "user:ann")


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"user": "telegram:*", "workspaces": ["a"]}, "user"),
        ({"workspaces": ["a"]}, "user"),
        ({"user": "ann", "users": ["bob"], "workspaces": ["a"]}, "user"),
        ({"users": [], "workspaces": ["a"]}, "users"),
        ({"users": ["*"], "workspaces": ["a"]}, "users"),
        ({"users": ["ann", "op*"], "workspaces": ["a"]}, "users"),
        ({"users": "telegram:*", "workspaces": ["a"]}, "users"),
        ({"user": "operator", "workspaces": ["a"]}, "user"),
        ({"user": "", "workspaces": ["a"]}, "user"),
        ({"user": " ann", "workspaces": ["a"]}, "user"),
        ({"user": "a\nb", "workspaces": ["a"]}, "user"),
        ({"user": "ann", "workspaces": []}, "workspaces"),
        ({"user": "ann", "workspaces": ["../a"]}, "id"),
        ({"user": "ann", "workspaces": ["a"], "expires": "soon"}, "expires"),
        ({"user": "ann", "workspaces": ["a"], "expires": "99999d"}, "expires"),
    ],
)
def test_a_wrong_field_is_named(host: Host, body: dict[str, object], field: str) -> None:
    refused = host.operator.post("/tokens", json=body)
    assert refused.status_code == 422, refused.text
    assert field in [fault["field"] for fault in refused.json()["errors"]]


def test_a_scoped_token_opens_no_other_route_of_the_host(host: Host, tmp_path: Path) -> None:
    with closing(open_database("sqlite://")) as database:
        shares = divide_descriptors(1024)
        app = create_app(HostSettings(data_dir=tmp_path), database, "http://host", shares, lambda _token: None)
    routes = [(method.upper(), path) for path, methods in app.openapi()["paths"].items() for method in methods]
    routes += [("POST", "/v1/chat/completions"), ("POST", "/v1/embeddings")]
    assert set(routes) >= FOR_PEOPLE
    with host.client(scoped(host).json()["token"]) as ann:
        for method, path in set(routes) - FOR_PEOPLE:
            filled = re.sub(r"\{\w+(:path)?\}", "a", path)
            answer = ann.request(method, filled, json={} if method in ("POST", "PUT", "PATCH") else None)
            assert answer.status_code == 403 or (method, path) in PUBLIC, (method, path, answer.status_code)


def test_a_revoked_token_ends_at_once_and_its_neighbour_stays(host: Host) -> None:
    def status(token: str) -> int:
        with host.client(token) as client:
            return client.get("/workspaces/a/api/status").status_code

    first, second = scoped(host).json(), scoped(host).json()
    assert [status(first["token"]), status(second["token"])] == [404, 404]
    assert host.operator.delete(f"/tokens/{first['id']}").status_code == 204
    assert [status(first["token"]), status(second["token"])] == [401, 404]
    assert host.operator.delete(f"/tokens/{first['id']}").status_code == 404


def test_a_revoked_token_loses_its_streams_and_those_of_its_neighbour_go_on(host: Host) -> None:
    first, second = scoped(host).json(), scoped(host).json()
    with (
        host.client(first["token"]) as revoked,
        host.client(second["token"]) as neighbour,
        revoked.stream("GET", "/events") as cut,
        neighbour.stream("GET", "/events") as kept,
    ):
        lines, others = cut.iter_lines(), kept.iter_lines()
        assert [next(lines), next(others)] == [": watching"] * 2
        assert host.operator.delete(f"/tokens/{first['id']}").status_code == 204
        with pytest.raises(httpx.TransportError):
            list(lines)
        assert any(line == ": keep-alive" for line in others)


@pytest.mark.slow
def test_the_command_makes_lists_and_revokes(host: Host) -> None:
    def run(*arguments: str) -> tuple[int | None, str]:
        with LiveProcess([*UP[:-1], "token", *arguments], host.env) as process:
            return process.wait(60), process.output().strip()

    code, token = run("--user", "bob", "--workspaces", "a, b", "--expires", "12h")
    assert code == 0, token
    with host.client(token) as bob:
        assert bob.get("/workspaces/c/api/status").status_code == 403
    [row] = [row for row in host.operator.get("/tokens").json()["tokens"] if row["owner"] == "user:bob"]
    code, table = run("--list")
    assert code == 0
    assert row["id"] in table
    assert token not in table
    assert run("--revoke", row["id"])[1] == "revoked: 1"
    code, text = run("--revoke", row["id"])
    assert code == 1
    assert "there is no token" in text
    code, token = run("--user", "telegram:*", "--user", "discord:*", "--workspaces", "a")
    assert code == 0, token
    with host.client(token) as bot:
        bot.headers["x-agent-user"] = "discord:7"
        assert bot.get("/workspaces/a/api/status").status_code == 404
    assert "discord:*,telegram:*  a" in run("--list")[1]
    for wrong in ((), ("writer", "--user", "bob"), ("writer", "--expires", "1d"), ("--user", "*", "--workspaces", "a")):
        assert run(*wrong)[0] == 1
