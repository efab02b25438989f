"""Subscriptions over HTTP: made once, received in order, over a host that is killed, seen by their agent alone."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from .live import PATIENCE, Host, assert_problem
from .members import make_member
from .watching import eventually

SUBSCRIBE = {"topic": "orders", "session": "ses_1"}


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    with Host(tmp_path_factory.mktemp("subscriptions") / "data") as host:
        yield host


@pytest.fixture(scope="module")
def tokens(host: Host) -> dict[str, str]:
    """Of `ann` and `bob` of the team `red`, and `eve` of the team `blue`."""
    teams = {"ann": "red", "bob": "red", "eve": "blue"}
    return {name: make_member(host, name, team) for name, team in teams.items()}


@pytest.fixture
def agents(host: Host, tokens: dict[str, str]) -> Iterator[dict[str, httpx.Client]]:
    clients = {name: host.client(token) for name, token in tokens.items()}
    yield clients
    for client in clients.values():
        client.close()


@pytest.fixture
def bob(agents: dict[str, httpx.Client]) -> httpx.Client:
    return agents["bob"]


def receive(client: httpx.Client, *receipts: dict[str, Any], wait: float = 0.0, **more: Any) -> dict[str, Any]:
    body = {"receipts": receipts, "wait_seconds": wait, **more}
    reply = client.post("/subscriptions/deliveries", json=body)
    assert reply.status_code == 200, reply.text
    return reply.json()


def taken(delivery: dict[str, Any]) -> list[dict[str, Any]]:
    last = {one["subscription_id"]: one["seq"] for one in delivery["messages"]}
    return [{"subscription_id": name, "seq": seq, "status": "taken"} for name, seq in last.items()]


def subscribed(client: httpx.Client, topic: str, session: str = "ses_1") -> dict[str, Any]:
    reply = client.post("/subscriptions", json={"topic": topic, "session": session})
    assert reply.status_code in (200, 201), reply.text
    return reply.json()


def publish(client: httpx.Client, topic: str, data: Any) -> None:
    assert client.post(f"/topics/{topic}", json={"data": data}).status_code == 201


def test_a_subscription_is_made_once_and_listed(host: Host, agents: dict[str, httpx.Client], bob: httpx.Client) -> None:
    first = bob.post("/subscriptions", json=SUBSCRIBE)
    assert first.status_code == 201, first.text
    again = bob.post("/subscriptions", json=SUBSCRIBE)
    assert (again.status_code, again.json()) == (200, first.json())
    assert bob.get("/subscriptions", params={"topic": "orders"}).json()["subscriptions"] == [first.json()]
    assert agents["ann"].get("/subscriptions").json() == {"subscriptions": []}
    shown = host.operator.get("/subscriptions", params={"agent": "bob", "session": "ses_1"}).json()["subscriptions"]
    assert shown == [first.json()]
    assert host.operator.get("/subscriptions", params={"team": "blue"}).json()["subscriptions"] == []
    assert_problem(agents["eve"].get("/subscriptions", params={"team": "red"}), 404, "not_found")
    assert_problem(agents["eve"].post("/subscriptions", json=SUBSCRIBE, params={"team": "red"}), 404, "not_found")
    for other in ("ann", "eve"):
        assert_problem(agents[other].delete(f"/subscriptions/{first.json()['id']}"), 404, "not_found")
    assert bob.delete(f"/subscriptions/{first.json()['id']}").status_code == 204
    other = subscribed(bob, "orders")
    assert host.operator.delete(f"/subscriptions/{other['id']}").status_code == 204
    assert_problem(host.operator.delete(f"/subscriptions/{other['id']}"), 404, "not_found")


def test_pages_by_id(bob: httpx.Client) -> None:
    made = sorted(subscribed(bob, f"page-{number}")["id"] for number in range(3))
    first = bob.get("/subscriptions", params={"limit": 2}).json()
    rest = bob.get("/subscriptions", params={"limit": 2, "after": first["next"]}).json()
    assert ([one["id"] for one in first["subscriptions"] + rest["subscriptions"]], "next" in rest) == (made, False)
    for one in made:
        assert bob.delete(f"/subscriptions/{one}").status_code == 204


def test_a_question_waits_for_what_is_published(agents: dict[str, httpx.Client], bob: httpx.Client) -> None:
    made = subscribed(bob, "news")
    answers: list[dict[str, Any]] = []
    waiting = threading.Thread(target=lambda: answers.append(receive(bob, wait=30)), daemon=True)
    waiting.start()
    publish(agents["eve"], "news", "of another team")
    publish(bob, "news", "its own")
    publish(agents["ann"], "news", {"n": 1})
    waiting.join(PATIENCE)
    (answer,) = answers
    (delivery,) = answer["deliveries"]
    assert answer["subscriptions"] == [{"id": made["id"], "session": "ses_1"}]
    (message,) = delivery["messages"]
    assert {name: message[name] for name in ("topic", "seq", "by", "data")} == {
        "topic": "news",
        "seq": 2,
        "by": "ann",
        "data": '{"n":1}',
    }
    assert receive(bob, *taken(delivery))["deliveries"] == []
    assert bob.get("/subscriptions", params={"topic": "news"}).json()["subscriptions"][0]["position"] == 2
    assert bob.delete(f"/subscriptions/{made['id']}").status_code == 204


def test_a_newer_question_ends_the_one_before(bob: httpx.Client, host: Host, tokens: dict[str, str]) -> None:
    made = subscribed(bob, "quiet")
    answers: list[dict[str, Any]] = []
    with host.client(tokens["bob"]) as other:
        waiting = threading.Thread(target=lambda: answers.append(receive(other, wait=30)), daemon=True)
        waiting.start()
        eventually(lambda: bool(receive(bob)["subscriptions"]) and bool(answers))
        waiting.join(PATIENCE)
    assert bob.delete(f"/subscriptions/{made['id']}").status_code == 204


def test_an_agent_that_moves_to_another_team_waits_and_subscribes_there(
    host: Host, agents: dict[str, httpx.Client]
) -> None:
    with host.client(make_member(host, "max", "red")) as mover:
        first = subscribed(mover, "moved")
        assert host.operator.patch("/workspaces/max", json={"team": "blue"}).status_code == 200
        publish(agents["eve"], "moved", "before it subscribes")
        eventually(lambda: bool(mover.get("/topics/moved").json().get("messages")))
        publish(agents["ann"], "moved", "of the old team")
        begin = time.monotonic()
        assert receive(mover, wait=1)["deliveries"] == []
        assert time.monotonic() - begin >= 1, "an answer at once would be asked for again at once"
        second = subscribed(mover, "moved")
        assert (second["team"], subscribed(mover, "moved")) == ("blue", second)
        assert second["id"] != first["id"]
        publish(agents["eve"], "moved", "of the new team")
        (delivery,) = receive(mover, wait=PATIENCE / 3)["deliveries"]
        assert [one["data"] for one in delivery["messages"]] == ['"of the new team"']
        assert mover.delete(f"/subscriptions/{second['id']}").status_code == 204
        assert receive(mover, wait=PATIENCE / 3)["subscriptions"] == []


def test_what_was_not_taken_comes_again_after_the_host_was_killed(
    host: Host, agents: dict[str, httpx.Client], tokens: dict[str, str]
) -> None:
    made = subscribed(agents["bob"], "kept")
    publish(agents["ann"], "kept", "before")
    (delivery,) = receive(agents["bob"])["deliveries"]
    os.kill(host.process.pid, signal.SIGKILL)
    host.start()
    with host.client(tokens["bob"]) as bob, host.client(tokens["ann"]) as ann:
        assert receive(bob)["deliveries"] == [], "it is still under way"
        publish(ann, "kept", "after")
        (later,) = receive(bob, *taken(delivery))["deliveries"]
        assert [one["data"] for one in later["messages"]] == ['"after"']
        refused = {"subscription_id": made["id"], "status": "refused", "reason": "no room"}
        assert receive(bob, refused)["deliveries"] == []
        (shown,) = bob.get("/subscriptions", params={"topic": "kept"}).json()["subscriptions"]
        assert (shown["waiting"], shown["attempts"], shown["position"]) == (1, 1, 1)
        assert receive(bob, {"subscription_id": made["id"], "status": "ended"})["subscriptions"] == []


def test_dead_letters_are_for_the_operator(host: Host, tokens: dict[str, str]) -> None:
    with host.client(tokens["bob"]) as bob:
        assert_problem(bob.get("/subscriptions/dead-letters"), 403, "forbidden")
    assert host.operator.get("/subscriptions/dead-letters", params={"team": "red"}).json() == {"dead_letters": []}
    assert_problem(host.operator.post("/subscriptions", json=SUBSCRIBE), 403, "forbidden")
    assert_problem(host.operator.post("/subscriptions/deliveries", json={}), 403, "forbidden")


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("", {"session": "s"}, "topic"),
        ("", {"topic": "orders"}, "session"),
        ("", {"topic": "a/b", "session": "s"}, "topic"),
        ("", {"topic": "x" * 201, "session": "s"}, "topic"),
        ("", {"topic": 7, "session": "s"}, "topic"),
        ("", {"topic": "orders", "session": ""}, "session"),
        ("", {"topic": "orders", "session": "a b"}, "session"),
        ("", {"topic": "orders", "session": "s" * 201}, "session"),
        ("", {"topic": "orders", "session": "s", "agent": "ann"}, "agent"),
        ("/deliveries", {"wait_seconds": 31}, "wait_seconds"),
        ("/deliveries", {"wait_seconds": "NaN"}, "wait_seconds"),
        ("/deliveries", {"busy_sessions": ["x"] * 1001}, "busy_sessions"),
        ("/deliveries", {"receipts": [{"subscription_id": "s", "status": "eaten"}]}, "receipts.0.status"),
        ("/deliveries", {"receipts": [{"subscription_id": "s", "status": "taken", "seq": -1}]}, "receipts.0.seq"),
        ("/deliveries", {"receipts": [{"subscription_id": "s", "status": "taken", "seq": 1 << 63}]}, "receipts.0.seq"),
        ("/deliveries", {"receipts": [{"status": "taken"}]}, "receipts.0.subscription_id"),
        ("/deliveries", {"receipts": 300 * [{"subscription_id": "s", "status": "taken"}]}, "receipts"),
    ],
)
def test_what_is_wrong_is_named(host: Host, tokens: dict[str, str], path: str, body: Any, field: str) -> None:
    with host.client(tokens["bob"]) as bob:
        before = bob.get("/subscriptions").json()
        refused = bob.post(f"/subscriptions{path}", json=body)
        assert refused.status_code == 422, refused.text
        assert [fault["field"] for fault in refused.json()["errors"]] == [field]
        assert bob.get("/subscriptions").json() == before
