"""Topics over HTTP: published once, read by page, streamed over a host that is killed, seen by their team alone."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from .live import Host, assert_problem
from .members import make_member
from .watching import Watcher


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    with Host(tmp_path_factory.mktemp("topics") / "data") as host:
        yield host


@pytest.fixture(scope="module")
def agents(host: Host) -> Iterator[dict[str, httpx.Client]]:
    """`ann` and `bob` of the team `red`, `eve` of the team `blue`."""
    teams = {"ann": "red", "bob": "red", "eve": "blue"}
    clients = {name: host.client(make_member(host, name, team)) for name, team in teams.items()}
    yield clients
    for client in clients.values():
        client.close()


@pytest.fixture(scope="module")
def ann(agents: dict[str, httpx.Client]) -> httpx.Client:
    return agents["ann"]


def post(client: httpx.Client, topic: str, data: Any, message_id: str | None = None) -> httpx.Response:
    body = {"data": data} if message_id is None else {"id": message_id, "data": data}
    return client.post(f"/topics/{topic}", json=body, headers={"x-agent-session": "ses_1"})


def test_a_message_is_published_once_whatever_is_sent_again(ann: httpx.Client, agents: dict[str, httpx.Client]) -> None:
    first = post(ann, "orders", {"n": 1}, "order-1")
    assert (first.status_code, first.json()) == (201, {"id": "order-1", "seq": 1})
    again = post(ann, "orders", {"n": 1}, "order-1")
    assert (again.status_code, again.json()) == (200, {"id": "order-1", "seq": 1})
    assert_problem(post(ann, "orders", {"n": 2}, "order-1"), 409, "message_conflict")
    assert post(agents["bob"], "orders", {"n": 2}, "order-1").json() == {"id": "order-1", "seq": 2}, "bob's own id"
    made = post(ann, "orders", None)
    assert made.status_code == 201
    assert made.json()["seq"] == 3
    assert post(ann, "orders", None).json()["id"] != made.json()["id"]
    page = agents["bob"].get("/topics/orders", params={"limit": 2}).json()
    (one, two) = page["messages"]
    assert one.pop("at") > 1_700_000_000_000
    assert one == {"id": "order-1", "seq": 1, "data": {"n": 1}, "by": "ann", "cause": {"session": "ses_1"}}
    assert (two["by"], two["data"], page["next"]) == ("bob", {"n": 2}, 2)
    rest = ann.get("/topics/orders", params={"after": page["next"]}).json()
    assert ([message["seq"] for message in rest["messages"]], "next" in rest) == ([3, 4], False)


def test_a_team_sees_nothing_of_another(host: Host, ann: httpx.Client, agents: dict[str, httpx.Client]) -> None:
    eve = agents["eve"]
    assert post(ann, "private", "red's").status_code == 201
    assert_problem(eve.get("/topics/private"), 404, "not_found")
    assert_problem(eve.get("/topics/private", params={"team": "red"}), 404, "not_found")
    assert_problem(eve.post("/topics/private", json={"data": 1}, params={"team": "red"}), 404, "not_found")
    with Watcher(eve, "/topics/private", "0") as watcher:
        assert post(eve, "private", "blue's").json()["seq"] == 1
        assert [one["data"] for one in watcher.take(1)] == ["blue's"]
    assert_problem(ann.delete("/topics/private"), 403, "forbidden")
    read = host.operator.get("/topics/private", params={"team": "red"}).json()["messages"]
    assert [one["data"] for one in read] == ["red's"]
    assert host.operator.delete("/topics/private", params={"team": "red"}).status_code == 204
    assert_problem(ann.get("/topics/private"), 404, "not_found")
    assert_problem(host.operator.delete("/topics/private", params={"team": "red"}), 404, "not_found")


@pytest.mark.parametrize(
    ("topic", "body", "status", "field"),
    [
        ("x", {}, 422, "data"),
        ("x", {"data": 1, "id": ""}, 422, "id"),
        ("x", {"data": 1, "id": "i" * 201}, 422, "id"),
        ("x", {"data": 1, "id": "a\nb"}, 422, "id"),
        ("x", {"data": 1, "id": 7}, 422, "id"),
        ("x", {"data": 1, "to": 7}, 422, "to"),
        ("x y", {"data": 1}, 422, "name"),
        ("-", {"data": 1}, 422, "name"),
        ("x" * 201, {"data": 1}, 422, "name"),
        ("x", {"data": "x" * (256 * 1024)}, 413, None),
    ],
)
def test_what_is_wrong_is_named(ann: httpx.Client, topic: str, body: Any, status: int, field: str | None) -> None:
    refused = ann.post(f"/topics/{topic}", json=body)
    assert refused.status_code == status, refused.text
    assert [fault["field"] for fault in refused.json().get("errors", [])] == ([field] if field else [])
    assert ann.get("/topics/x").status_code == 404


@pytest.mark.parametrize(
    ("query", "headers", "field"),
    [
        *(({"after": after}, {}, "after") for after in ("-1", "1.5", "last", "", str(1 << 63))),
        *(({"limit": limit}, {}, "limit") for limit in ("0", "1001", "ten", "")),
        ({"seq": "1"}, {}, "seq"),
        ({}, {"accept": "text/event-stream", "last-event-id": "1" * 101}, "last-event-id"),
        ({"after": "x"}, {"accept": "text/event-stream"}, "after"),
    ],
)
def test_a_wrong_query_is_named(ann: httpx.Client, query: dict[str, str], headers: dict[str, str], field: str) -> None:
    assert post(ann, "asked", 1, "first").is_success
    refused = assert_problem(ann.get("/topics/asked", params=query, headers=headers), 422, "invalid_request")
    assert [fault["field"].lower() for fault in refused["errors"]] == [field]


@pytest.mark.parametrize("last", ["-1", "first", "1.5", "9" * 30])
def test_a_stream_after_what_is_no_id_begins_at_the_first_message(ann: httpx.Client, last: str) -> None:
    assert post(ann, "streamed", 1, "first").is_success
    with Watcher(ann, "/topics/streamed", last) as watcher:
        assert [one["seq"] for one in watcher.take(1)] == [1]


@pytest.mark.slow
def test_a_stream_goes_on_where_it_was_after_the_host_was_killed(tmp_path: Path) -> None:
    with Host(tmp_path / "data") as host:
        seen: list[int] = []
        last: str | None = None
        for life in range(3):
            with Watcher(host.operator, "/topics/news", last) as watcher:
                for number in range(4):
                    assert post(host.operator, "news", life * 10 + number, f"{life}-{number}").status_code == 201
                seen += [one["data"] for one in watcher.take(4 if life == 0 else 5)]
                last = watcher.last
                os.kill(host.process.pid, signal.SIGKILL)
            host.start()
            assert post(host.operator, "news", life * 10 + 3, f"{life}-3").status_code == 200, "it was published before"
            assert post(host.operator, "news", life * 10 + 4).status_code == 201, "while nobody watches"
        assert seen == [0, 1, 2, 3, 4, 10, 11, 12, 13, 14, 20, 21, 22, 23]
