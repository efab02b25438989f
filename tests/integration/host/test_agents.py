"""Cards of agents over HTTP: posted, replaced, found, seen by their team alone, gone with their workspace."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from .live import Host, assert_problem
from .members import make_member

TEAMS = {"ann": "red", "bob": "red", "eve": "blue"}
CARD = {
    "name": "Ann",
    "role": "gardener",
    "agents": [{"name": "default", "description": "does whatever it is asked"}],
    "skills": [{"name": "beds", "description": "Plans beds of Roses"}],
    "tools": ["bash", "read"],
    "protocols": {"agent-runtime": "1"},
}


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    with Host(tmp_path_factory.mktemp("agents") / "data") as host:
        yield host


@pytest.fixture(scope="module")
def agents(host: Host) -> Iterator[dict[str, httpx.Client]]:
    """`ann` and `bob` of the team `red`, `eve` of the team `blue`; each has posted a card."""
    clients = {name: host.client(make_member(host, name, team)) for name, team in TEAMS.items()}
    for name, client in clients.items():
        assert client.post("/agents", json={**CARD, "name": name.title()}).status_code == 200
    yield clients
    for client in clients.values():
        client.close()


def listed(client: httpx.Client, **query: Any) -> list[str]:
    reply = client.get("/agents", params=query)
    assert reply.status_code == 200, reply.text
    return [agent["id"] for agent in reply.json()["agents"]]


def test_a_card_is_what_its_agent_said_last(agents: dict[str, httpx.Client]) -> None:
    bob = agents["bob"]
    assert bob.post("/agents", json={"name": "Robert", "tools": ["shout"]}).json()["name"] == "Robert"
    (found,) = agents["ann"].get("/agents", params={"q": "robert"}).json()["agents"]
    assert found.pop("updated_at") > 1_700_000_000_000
    empty = {"role": "", "agents": [], "skills": [], "protocols": {}}
    assert found == {"id": "bob", "team": "red", "state": "away", "name": "Robert", "tools": ["shout"], **empty}
    assert bob.post("/agents", json={**CARD, "name": "Bob"}).status_code == 200
    assert listed(bob, capability="shout") == []


def test_agents_are_found_by_what_they_can_do(agents: dict[str, httpx.Client]) -> None:
    ann = agents["ann"]
    for capability in ("beds", "bash", "default", "agent-runtime"):
        assert listed(ann, capability=capability) == ["ann", "bob"], capability
    assert listed(ann, capability="bed") == [], "the whole name"
    assert listed(ann, q="ROSES") == ["ann", "bob"]
    assert listed(ann, q="ann", capability="bash") == ["ann"]
    first = ann.get("/agents", params={"limit": 1}).json()
    assert (len(first["agents"]), first["next"]) == (1, "ann")
    rest = ann.get("/agents", params={"after": first["next"]}).json()
    assert ([one["id"] for one in rest["agents"]], "next" in rest) == (["bob"], False)


def test_a_team_sees_its_own_and_the_operator_all(host: Host, agents: dict[str, httpx.Client]) -> None:
    assert listed(agents["eve"]) == ["eve"]
    assert listed(host.operator) == ["ann", "bob", "eve"]
    assert listed(host.operator, team="blue") == ["eve"]
    assert_problem(agents["eve"].get("/agents", params={"team": "red"}), 404, "not_found")
    assert agents["bob"].get("/agents/ann").json() == agents["ann"].get("/agents").json()["agents"][0]
    assert host.operator.get("/agents/eve").json()["team"] == "blue"
    assert_problem(agents["eve"].get("/agents/ann"), 404, "not_found")
    assert_problem(host.operator.get("/agents/ann", params={"team": "blue"}), 404, "not_found")
    assert_problem(host.operator.get("/agents/nobody"), 404, "not_found")
    for route in ("ask", "hand-off"):
        other = assert_problem(agents["eve"].post(f"/agents/ann/{route}", json={"message": "hi"}), 404, "not_found")
        none = assert_problem(agents["eve"].post(f"/agents/nobody/{route}", json={"message": "hi"}), 404, "not_found")
        assert other["detail"].replace("ann", "nobody") == none["detail"]


def test_a_card_goes_with_its_workspace(host: Host) -> None:
    with host.client(make_member(host, "short", "green")) as client:
        assert client.post("/agents", json=CARD).status_code == 200
    assert listed(host.operator, team="green") == ["short"]
    assert host.operator.delete("/workspaces/short", params={"force": True}).status_code == 204
    assert listed(host.operator, q="short") == []


@pytest.mark.parametrize(
    ("body", "status", "field"),
    [
        ({}, 422, "name"),
        ({"name": ""}, 422, "name"),
        ({**CARD, "role": 7}, 422, "role"),
        ({**CARD, "skills": ["beds"]}, 422, "skills.0"),
        ({**CARD, "skills": [{"name": "x", "more": 1}]}, 422, "skills.0.more"),
        ({**CARD, "tools": ["x"] * 1001}, 422, "tools"),
        ({**CARD, "id": "eve"}, 422, "id"),
        ({**CARD, "skills": [{"name": "x", "description": "d" * 1000}] * 300}, 413, None),
    ],
)
def test_what_is_wrong_with_a_card_is_named(
    agents: dict[str, httpx.Client], body: Any, status: int, field: str | None
) -> None:
    before = agents["ann"].get("/agents").json()
    refused = agents["ann"].post("/agents", json=body)
    assert refused.status_code == status, refused.text
    assert [fault["field"] for fault in refused.json().get("errors", [])] == ([field] if field else [])
    assert agents["ann"].get("/agents").json() == before


def test_the_operator_has_no_card(host: Host) -> None:
    assert_problem(host.operator.post("/agents", json=CARD), 403, "forbidden")


@pytest.mark.parametrize(
    ("route", "body", "headers", "field"),
    [
        ("ask", {}, {}, "message"),
        ("ask", {"message": ""}, {}, "message"),
        ("ask", {"message": "x", "deadline_s": 0}, {}, "deadline_s"),
        ("ask", {"message": "x", "deadline_s": 601}, {}, "deadline_s"),
        ("ask", {"message": "x", "deadline_s": "7"}, {}, "deadline_s"),
        ("ask", {"message": "x" * 100_001}, {}, "message"),
        ("hand-off", {"message": "x", "deadline_s": 86_401}, {}, "deadline_s"),
        ("hand-off", {"message": "x", "deadline_s": True}, {}, "deadline_s"),
        ("hand-off", {"message": "x", "to": 1}, {}, "to"),
        ("hand-off", {"message": "x"}, {"Idempotency-Key": "a b"}, "idempotency-key"),
    ],
)
def test_what_is_wrong_with_a_message_is_named(
    host: Host, agents: dict[str, httpx.Client], route: str, body: Any, headers: dict[str, str], field: str
) -> None:
    refused = assert_problem(
        agents["ann"].post(f"/agents/bob/{route}", json=body, headers=headers), 422, "invalid_request"
    )
    assert [fault["field"].lower() for fault in refused["errors"]] == [field]
    assert host.operator.get("/work").json()["work"] == []
