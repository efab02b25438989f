"""Whoever has no token, a wrong one or a person's is refused on every route of agents, and changes nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from .live import Host
from .members import make_member

PUBLIC = {("GET", "/healthz"), ("GET", "/readyz")}
SHARED = ("/blackboard", "/topics", "/subscriptions", "/artifacts", "/agents")
UNLISTED = [
    ("POST", "/v1/chat/completions"),
    ("POST", "/v1/embeddings"),
    *((method, "/services/{name}/{path}") for method in ("GET", "POST", "PUT", "PATCH", "DELETE")),
]
"""Routes that the description leaves out."""
CHANGES = ("POST", "PUT", "PATCH", "DELETE")
BODIES = (b"", b"{}", b'{"value": 1, "data": 1, "message": "hi", "name": "mallory"}')
BROKEN = b'{"value": '


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    """A host whose agent `a` has shared one thing of each kind, all with the name `a`."""
    with Host(tmp_path_factory.mktemp("access") / "data") as host:
        with host.client(make_member(host, "a")) as agent:
            for made in (
                agent.put("/blackboard/a", json={"value": 1}),
                agent.post("/blackboard/a/claim", json={"lease_seconds": 3600}),
                agent.post("/topics/a", json={"data": 1}),
                agent.put("/artifacts/a", content=b"a", headers={"content-type": "text/plain"}),
                agent.post("/agents", json={"name": "a"}),
                agent.post("/subscriptions", json={"topic": "a", "session": "a"}),
                host.operator.put("/budgets/agent:a", json={"daily_tokens": 1000}),
            ):
                assert made.is_success, made.text
        yield host


def routes(host: Host) -> list[tuple[str, str]]:
    described = host.operator.get("/openapi.json").json()["paths"]
    listed = [(method.upper(), path) for path, methods in described.items() for method in methods]
    assert {path.split("/")[1] for _, path in listed} >= {path[1:] for path in SHARED}
    return [*(route for route in listed if route not in PUBLIC), *UNLISTED]


def shared_state(host: Host) -> list[Any]:
    """All that a request could have changed."""
    paths = ("blackboard", "blackboard/a/history", "topics/a", "artifacts", "agents", "subscriptions", "budgets")
    found = [host.operator.get(f"/{path}") for path in (*paths, "work", "tokens")]
    assert [reply.status_code for reply in found] == [200] * len(found)
    workspaces = host.operator.get("/workspaces").json()["workspaces"]
    return [*(reply.json() for reply in found), [(one["id"], one["desired_state"]) for one in workspaces]]


@pytest.mark.parametrize(
    ("caller", "status"), [("nobody", 401), ("a wrong token", 401), ("a word as token", 401), ("a person", 403)]
)
def test_strangers_are_refused_on_every_route(host: Host, caller: str, status: int) -> None:
    person = host.operator.post("/tokens", json={"user": "ann", "workspaces": ["a"]}).json()["token"]
    token = {"a wrong token": person[:-1] + "~", "a word as token": "x y", "a person": person}.get(caller)
    before = shared_state(host)
    subscription = before[5]["subscriptions"][0]["id"]
    attempts = 0
    with host.client(token) as stranger:
        for method, path in routes(host):
            if caller == "a person" and not path.startswith((*SHARED, "/v1/", "/services/")):
                continue  # some of the others are open to people
            filled = re.sub(r"\{\w+(:path)?\}", "a", path.replace("{subscription_id}", subscription))
            bodies = (*BODIES, BROKEN) if token != person else BODIES  # JSON is read before rights
            for body in bodies if method in CHANGES else BODIES[:1]:
                reply = send(stranger, method, filled, body)
                assert reply.status_code == status, (method, filled, body, reply.status_code, reply.text)
                attempts += 1
    assert attempts > 60
    assert shared_state(host) == before


def send(client: httpx.Client, method: str, path: str, body: bytes) -> httpx.Response:
    headers = {"content-type": "application/json", "idempotency-key": "a"}
    return client.request(method, path, content=body or None, headers=headers)
