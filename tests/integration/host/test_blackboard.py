"""The blackboard over HTTP: shapes, conditions, teams, claims, bad input, and watchers over a host that is killed."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import httpx
import pytest

from agent_common.protocol import MAX_VALUE_LEVELS
from agent_runtime.ports import MeshReply
from agent_runtime.tools.mesh.exchange import read_object

from .live import PATIENCE, Host, assert_problem
from .members import make_member, make_token
from .watching import Watcher, eventually

WATCH = "/blackboard/watch"
TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    folder = tmp_path_factory.mktemp("board")
    with Host(folder / "data", MESH_LISTEN=f"unix:{folder}/mesh.sock") as host:
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


@pytest.fixture(scope="module")
def bob(agents: dict[str, httpx.Client]) -> httpx.Client:
    return agents["bob"]


@pytest.fixture(scope="module")
def eve(agents: dict[str, httpx.Client]) -> httpx.Client:
    return agents["eve"]


def put(client: httpx.Client, key: str, value: Any, ttl: float | None = None, **headers: str) -> httpx.Response:
    body = {"value": value} if ttl is None else {"value": value, "ttl": ttl}
    named = {name.replace("_", "-"): text for name, text in headers.items()}
    return client.put(f"/blackboard/{key}", json=body, headers=named)


def test_a_workspace_of_another_team_has_that_teams_board_at_once(host: Host, ann: httpx.Client) -> None:
    assert put(ann, "of-one-team", "of the reds").status_code in (200, 201)
    workspace = {"id": "moving", "driver": "external", "team": "green"}
    with host.client(make_member(host, "moving", "red")) as client:
        assert client.get("/blackboard/of-one-team").status_code == 200
        assert host.operator.patch("/workspaces/moving", json={"team": "blue"}).status_code == 200
        assert_problem(client.get("/blackboard/of-one-team"), 404, "not_found")
        assert host.operator.patch("/workspaces/moving", json={"team": "red"}).status_code == 200
        assert client.get("/blackboard/of-one-team").status_code == 200
    assert host.operator.delete("/workspaces/moving", params={"force": "true"}).status_code == 204
    assert host.operator.post("/workspaces", json=workspace).status_code == 201
    with host.client(make_token(host, "moving")) as client:
        assert_problem(client.get("/blackboard/of-one-team"), 404, "not_found")


# ---------------------------------------------------------------- entries


def test_an_entry_is_written_read_and_written_again(ann: httpx.Client, bob: httpx.Client) -> None:
    value = {"text": "häuser", "numbers": [1, 1.5, 10**30], "nothing": None}
    made = put(ann, "plans/first", value, X_Agent_Session="ses_1", X_Agent_Task="t1", traceparent=TRACE)
    assert (made.status_code, made.headers["etag"]) == (201, '"1"')
    entry = made.json()
    assert entry.pop("updated_at") > 1_700_000_000_000
    cause = {"session": "ses_1", "task": "t1", "trace": "0af7651916cd43dd8448eb211c80319c"}
    assert entry == {"key": "plans/first", "value": value, "version": 1, "updated_by": "ann", "cause": cause}
    again = put(bob, "plans/first", [])
    assert (again.status_code, again.headers["etag"]) == (200, '"2"')
    assert again.json()["updated_by"] == "bob"
    assert again.json()["cause"] == {}
    read = ann.get("/blackboard/plans/first")
    assert (read.json(), read.headers["etag"]) == (again.json(), '"2"')
    for known, status in (('"2"', 304), ('W/"2"', 304), ('"1", W/"2"', 304), ("*", 304), ('"1"', 200), ('W/"1"', 200)):
        found = ann.get("/blackboard/plans/first", headers={"If-None-Match": known})
        assert found.status_code == status, (known, found.text)
    assert ann.get("/blackboard/plans/none", headers={"If-None-Match": "*"}).status_code == 404
    assert ann.get("/blackboard/plans%2Ffirst").json() == again.json()
    assert ann.delete("/blackboard/plans/first").status_code == 204
    assert_problem(ann.get("/blackboard/plans/first"), 404, "not_found")
    assert_problem(ann.delete("/blackboard/plans/first"), 404, "not_found")
    changes = ann.get("/blackboard/plans/first/history").json()
    assert "next" not in changes
    told = [(one["kind"], one["version"], one["value"], one["updated_by"]) for one in changes["entries"]]
    assert told == [("delete", 3, None, "ann"), ("put", 2, [], "bob"), ("put", 1, value, "ann")]
    assert changes["entries"][2]["cause"] == cause
    page = ann.get("/blackboard/plans/first/history", params={"limit": 2}).json()
    assert [one["version"] for one in page["entries"]] == [3, 2]
    rest = ann.get("/blackboard/plans/first/history", params={"limit": 2, "after": page["next"]}).json()
    assert ([one["version"] for one in rest["entries"]], "next" in rest) == ([1], False)
    assert put(ann, "plans/first", 1).json()["version"] == 4, "a version never comes again"


@pytest.mark.parametrize("key", ["claim", "history"])
def test_a_key_may_be_named_as_the_end_of_a_route(ann: httpx.Client, key: str) -> None:
    assert put(ann, key, 1).status_code == 201
    assert put(ann, key, 2).status_code == 200
    assert ann.get(f"/blackboard/{key}").json()["value"] == 2
    assert [one["value"] for one in ann.get(f"/blackboard/{key}/history").json()["entries"]] == [2, 1]
    assert ann.post(f"/blackboard/{key}/claim", json={"lease_seconds": 5}).status_code == 200
    assert ann.delete(f"/blackboard/{key}/claim").status_code == 204
    assert ann.delete(f"/blackboard/{key}").status_code == 204
    for suffix in ("claim", "history"):
        assert_problem(put(ann, f"{key}/{suffix}", 1), 422, "invalid_request")


def test_a_write_with_a_condition_loses_to_one_that_was_sooner(ann: httpx.Client, bob: httpx.Client) -> None:
    assert put(ann, "cas", "a", If_None_Match="*").status_code == 201
    body = assert_problem(put(bob, "cas", "b", If_None_Match="*"), 412, "version_conflict")
    assert (body["value"], body["version"]) == ("a", 1)
    won = put(bob, "cas", "b", If_Match='"1"')
    assert (won.status_code, won.json()["version"]) == (200, 2)
    lost = put(ann, "cas", "c", If_Match='"1"')
    assert lost.headers["etag"] == '"2"'
    body = assert_problem(lost, 412, "version_conflict")
    assert (body["value"], body["version"]) == ("b", 2)
    assert put(ann, "cas", "c", If_Match='"7", "2"').json()["version"] == 3
    assert put(ann, "cas", "d", If_Match="*").json()["version"] == 4
    assert_problem(ann.delete("/blackboard/cas", headers={"If-Match": '"3"'}), 412, "version_conflict")
    assert ann.delete("/blackboard/cas", headers={"If-Match": '"4"'}).status_code == 204
    for tag in ('"5"', '"4"', "*"):
        body = assert_problem(put(ann, "cas", "e", If_Match=tag), 412, "version_conflict")
        assert (body["value"], body["version"]) == (None, 0), "there is nothing"


def test_lists_have_pages_by_key_whatever_characters_it_has(ann: httpx.Client) -> None:
    names = ["Z", "_", "a", "a/b", "a%2Fc", "aé", "b", "é", "日本", "\U0001f600", "~"]
    for name in names:
        assert put(ann, f"list/{name}".replace("%", "%25"), name).status_code == 201
    keys = sorted(f"list/{name}" for name in names)
    pages, after = list[str](), None
    for _ in range(20):
        more = {} if after is None else {"after": after}
        page = ann.get("/blackboard", params={"prefix": "list/", "limit": 3, **more}).json()
        pages += [entry["key"] for entry in page["entries"]]
        if (after := page.get("next")) is None:
            break
    assert pages == keys
    found = ann.get("/blackboard", params={"prefix": "list/a"}).json()["entries"]
    assert [one["value"] for one in found] == ["a", "a%2Fc", "a/b", "aé"]
    assert ann.get("/blackboard", params={"prefix": "list/%"}).json() == {"entries": []}


def test_an_entry_with_a_ttl_ends_and_its_watchers_learn_it(ann: httpx.Client) -> None:
    with Watcher(ann, WATCH, prefix="fleeting") as watcher:
        entry = put(ann, "fleeting", "x", ttl=0.3, X_Agent_Task="t9").json()
        assert entry["expires_at"] == entry["updated_at"] + 300
        eventually(lambda: ann.get("/blackboard/fleeting").status_code == 404)
        assert put(ann, "fleeting", "y", If_None_Match="*").json()["version"] == 3
        events = watcher.take(3)
    assert [(one["kind"], one["version"], one["value"]) for one in events] == [
        ("put", 1, "x"), ("expire", 2, None), ("put", 3, "y"),
    ]  # fmt: skip
    assert (events[1]["updated_by"], events[1]["cause"]) == ("ann", {"task": "t9"})
    assert "expires_at" not in ann.get("/blackboard/fleeting").json(), "a write without a ttl takes it away"


# ---------------------------------------------------------------- claims


def test_a_claim_has_one_holder_until_it_is_released_or_ends(ann: httpx.Client, bob: httpx.Client, host: Host) -> None:
    def claim(client: httpx.Client, seconds: float = 60) -> httpx.Response:
        return client.post("/blackboard/job/claim", json={"lease_seconds": seconds})

    assert_problem(claim(ann), 404, "not_found")
    assert put(ann, "job", {"do": "it"}).status_code == 201
    first = claim(ann)
    assert first.status_code == 200
    assert first.json().keys() == {"claim_id", "expires_at"}
    taken = assert_problem(claim(bob), 409, "claimed")
    assert (taken["claimed_by"], taken["expires_at"]) == ("ann", first.json()["expires_at"])
    renewed = claim(ann, 120).json()
    assert renewed["claim_id"] == first.json()["claim_id"]
    assert renewed["expires_at"] > first.json()["expires_at"]
    assert_problem(bob.delete("/blackboard/job/claim"), 409, "claimed")
    assert put(bob, "job", {"do": "more"}).status_code == 200, "a claim is an agreement, no lock"
    assert_problem(claim(bob), 409, "claimed")
    assert [ann.delete("/blackboard/job/claim").status_code for _ in range(2)] == [204, 204]
    second = claim(bob, 0.2)
    assert second.json()["claim_id"] != first.json()["claim_id"]
    eventually(lambda: claim(ann).status_code == 200)
    assert host.operator.delete("/blackboard/job/claim", params={"team": "red"}).status_code == 204
    assert claim(bob).status_code == 200
    assert ann.delete("/blackboard/job").status_code == 204
    assert put(ann, "job", 1).status_code == 201
    assert claim(ann).status_code == 200, "the claim went with the entry"


# ---------------------------------------------------------------- teams


def test_a_team_sees_nothing_of_another(host: Host, ann: httpx.Client, eve: httpx.Client) -> None:
    assert put(ann, "secret", "red's").is_success
    attempts: list[tuple[str, str, dict[str, Any] | None]] = [
        ("GET", "/blackboard/secret", None),
        ("DELETE", "/blackboard/secret", None),
        ("GET", "/blackboard/secret/history", None),
        ("POST", "/blackboard/secret/claim", {"lease_seconds": 5}),
        ("DELETE", "/blackboard/secret/claim", None),
    ]
    for method, path, body in attempts:
        assert_problem(eve.request(method, path, json=body), 404, "not_found")
    for method, path, body in [*attempts, ("PUT", "/blackboard/secret", {"value": 1}), ("GET", "/blackboard", None)]:
        assert_problem(eve.request(method, path, json=body, params={"team": "red"}), 404, "not_found")
    assert_problem(eve.get("/blackboard/watch", params={"team": "red"}), 404, "not_found")
    assert eve.get("/blackboard").json() == {"entries": []}
    with Watcher(eve, WATCH) as watcher:
        assert put(ann, "secret", "still").status_code == 200
        assert put(eve, "mine", "blue's").status_code == 201
        assert [one["value"] for one in watcher.take(1)] == ["blue's"]
    assert put(eve, "secret", "blue's own").json()["version"] == 1
    red = host.operator.get("/blackboard/secret", params={"team": "red"}).json()
    assert (red["value"], red["updated_by"]) == ("still", "ann")
    assert host.operator.get("/blackboard/secret", params={"team": "blue"}).json()["value"] == "blue's own"
    assert_problem(host.operator.get("/blackboard/secret"), 404, "not_found")
    assert put(host.operator, "default's", 1).json()["updated_by"] == "operator"
    assert ann.get("/blackboard/secret", params={"team": "red"}).status_code == 200


@pytest.mark.slow
def test_a_watcher_that_changes_its_team_is_ended(host: Host) -> None:
    with host.client(make_member(host, "mover", "old")) as mover, Watcher(mover, WATCH) as watcher:
        assert host.operator.patch("/workspaces/mover", json={"team": "new"}).status_code == 200
        eventually(lambda: watcher.ended)


@pytest.mark.slow
def test_a_watcher_is_ended_also_while_it_gets_changes_all_the_time(host: Host) -> None:
    """It gets them without running its own task, which is what asks whether it still may."""
    workspace, agent = make_member(host, "busy", "crowd"), make_member(host, "chatter", "crowd")
    with host.client(workspace) as busy, host.client(agent) as chatter, Watcher(busy, WATCH) as watcher:
        assert host.operator.patch("/workspaces/busy", json={"team": "elsewhere"}).status_code == 200

        def ended() -> bool:
            assert put(chatter, "noise", 1).status_code in (200, 201)
            return watcher.ended

        eventually(ended)


def test_fast_and_slow_watchers_get_every_change_in_order(host: Host, ann: httpx.Client) -> None:
    headers = {"authorization": ann.headers["authorization"], "accept": "text/event-stream"}
    with Watcher(ann, WATCH, prefix="flood/") as fast, httpx.Client(base_url=host.url, timeout=PATIENCE) as client:
        with client.stream("GET", WATCH, params={"prefix": "flood/"}, headers=headers) as slow:
            lines = slow.iter_lines()
            assert next(lines) == ": watching"
            for number in range(40):
                assert put(ann, f"flood/{number}", f"{number}:" + "x" * 200_000).status_code == 201
                assert put(ann, f"ebb/{number}", number).status_code == 201
            told = [json.loads(line[6:]) for line in islice((one for one in lines if one.startswith("data: ")), 40)]
        assert [one["key"] for one in told] == [one["key"] for one in fast.take(40)]
        assert [one["key"] for one in told] == [f"flood/{number}" for number in range(40)]


def test_a_guest_without_a_network_card_has_the_same_routes(host: Host, ann: httpx.Client) -> None:
    """Over a unix socket, which is what a machine's vsock port is on the host."""
    transport = httpx.HTTPTransport(uds=str(host.data_dir.parent / "mesh.sock"))
    headers = {"authorization": ann.headers["authorization"]}
    with httpx.Client(base_url="http://host", transport=transport, headers=headers, timeout=PATIENCE) as inside:
        assert put(inside, "from-inside", 1).json()["updated_by"] == "ann"
        with Watcher(inside, WATCH) as watcher:
            assert put(ann, "from-outside", 2).status_code == 201
            assert watcher.take(1)[0]["value"] == 2
    with httpx.Client(base_url="http://host", transport=transport) as stranger:
        assert_problem(stranger.get("/blackboard/from-inside"), 401, "unauthorized")


# ---------------------------------------------------------------- bad input


BAD_KEYS = [
    "a//b",
    "/a",
    "a/",
    "a%2F.%2Fb",
    "%2E%2E%2Fb",
    "a%00b",
    "a%09b",
    "x" * 513,
    "watch",
    "a/claim",
    "a/history",
    "%E2%80%AE",
]


@pytest.mark.parametrize("key", BAD_KEYS)
def test_a_key_that_can_be_misread_is_refused(ann: httpx.Client, key: str) -> None:
    refused = ann.put(f"/blackboard/{key}", json={"value": 1})
    assert (refused.status_code, [fault["field"] for fault in refused.json()["errors"]]) == (422, ["key"])


@pytest.mark.parametrize(
    ("body", "headers", "status", "field"),
    [
        ({}, {}, 422, "value"),
        ([], {}, 422, "body"),
        ({"value": 1, "more": 2}, {}, 422, "more"),
        ({"value": 1, "ttl": 0}, {}, 422, "ttl"),
        ({"value": 1, "ttl": "9"}, {}, 422, "ttl"),
        ({"value": 1, "ttl": True}, {}, 422, "ttl"),
        ({"value": 1, "ttl": 1e12}, {}, 422, "ttl"),
        ({"value": 1}, {"If-Match": "one"}, 422, "If-Match"),
        ({"value": 1}, {"If-Match": 'W/"1"'}, 422, "If-Match"),
        ({"value": 1}, {"If-Match": ", ".join(f'"{number}"' for number in range(300))}, 422, "If-Match"),
        ({"value": 1}, {"If-None-Match": '"1"'}, 422, "If-None-Match"),
        ({"value": 1}, {"If-None-Match": "*", "If-Match": "*"}, 422, "If-None-Match"),
        ({"value": 1}, {"X-Agent-Session": "x" * 201}, 422, "x-agent-session"),
        ({"value": "x" * (256 * 1024)}, {}, 413, None),
        ({"value": "x" * (3 << 20)}, {}, 413, None),
    ],
)
def test_a_bad_write_is_refused_and_nothing_is_written(
    ann: httpx.Client, body: Any, headers: dict[str, str], status: int, field: str | None
) -> None:
    refused = ann.put("/blackboard/bad", json=body, headers=headers)
    code = (
        "invalid_request"
        if field
        else "value_too_large"
        if len(refused.request.content) < 1 << 20
        else "body_too_large"
    )
    faults = [fault["field"] for fault in assert_problem(refused, status, code).get("errors", [])]
    assert faults == ([field] if field else [])
    assert ann.get("/blackboard/bad").status_code == 404
    assert ann.get("/blackboard/bad/history").status_code == 404


@pytest.mark.parametrize(
    ("body", "headers"),
    [
        (b'{"value": [1, {"a": null}], "ttl": 60}', {}),
        (b'{"value": 1}', {"If-Match": '"1", "2", "3", "4"'}),
        (b'{"value": 1}', {"If-Match": "*"}),
        (b'{"value": 1}', {"If-Match": f'"1", {" " * 2000}"2"'}),
        (b'{"value": 1}', {"If-None-Match": "*"}),
        (b'{"value": 1}', {"Content-Type": "text/plain"}),
        (b'{"value": 1', {}),
        (b'{"value": 1, "value": 2}', {}),
        (b"\xff", {}),
        (b"", {}),
        (b'"text"', {}),
        (b'{"ttl": "soon", "more": 1}', {}),
    ],
)
def test_a_write_is_answered_alike_with_and_without_a_query(host: Host, body: bytes, headers: dict[str, str]) -> None:
    """Without one it takes a shorter way."""
    answers: list[tuple[int, dict[str, Any]]] = []
    for query in ("", "?team=default"):
        host.operator.delete("/blackboard/alike")
        assert put(host.operator, "alike", 0).status_code == 201
        reply = host.operator.put(f"/blackboard/alike{query}", content=body, headers=headers)
        read = host.operator.get(f"/blackboard/alike{query}")
        answers += [(one.status_code, _without_numbers(one.json())) for one in (reply, read)]
    assert answers[:2] == answers[2:]


def _without_numbers(answer: dict[str, Any]) -> dict[str, Any]:
    kept = {name: value for name, value in answer.items() if name not in ("updated_at", "expires_at", "version")}
    return kept | ({"detail": re.sub(r"[0-9]+", "N", kept["detail"])} if "detail" in kept else {})


def test_a_value_of_the_largest_size_fits_also_as_a_long_list(ann: httpx.Client) -> None:
    for value in ("x" * (256 * 1024 - 2), [1] * 130_000):
        assert put(ann, "large", value).status_code in (200, 201)
        assert ann.get("/blackboard/large").json()["value"] == value


@pytest.mark.parametrize("path", ["/blackboard/deep", "/topics/deep"])
def test_no_value_is_nested_so_deep_that_a_list_of_it_cannot_be_read(ann: httpx.Client, path: str) -> None:
    method, member = ("PUT", "value") if path.startswith("/blackboard") else ("POST", "data")

    def write(levels: int) -> httpx.Response:
        return ann.request(method, path, content=f'{{"{member}": {"[" * levels}{"]" * levels}}}')

    assert write(MAX_VALUE_LEVELS).status_code in (200, 201)
    assert "nested more than" in assert_problem(write(MAX_VALUE_LEVELS + 1), 422, "invalid_request")["detail"]
    page = ann.get(path.removesuffix("/deep") if method == "PUT" else path)
    assert asyncio.run(read_object(MeshReply(200, {}, page.content))), "the tools of agents read it"


@pytest.mark.parametrize("raw", [b'{"value": 1e999}', b'{"value": {"a": 1, "a": 2}}', b'{"value": "\\ud800"}', b"{"])
def test_json_with_two_readings_is_refused(ann: httpx.Client, raw: bytes) -> None:
    assert_problem(ann.put("/blackboard/bad", content=raw), 422, "invalid_request")


@pytest.mark.parametrize("seconds", [0, -1, "5", None, 86_401, True])
def test_a_claim_needs_a_lease(ann: httpx.Client, seconds: Any) -> None:
    refused = ann.post("/blackboard/x/claim", json={"lease_seconds": seconds})
    assert assert_problem(refused, 422, "invalid_request")["errors"][0]["field"] == "lease_seconds"


def test_lists_and_watches_name_what_is_wrong(ann: httpx.Client, host: Host) -> None:
    for path, params, field in (
        ("/blackboard", {"limit": "0"}, "limit"),
        ("/blackboard", {"limit": "1001"}, "limit"),
        ("/blackboard", {"prefix": "x" * 513}, "prefix"),
        ("/blackboard", {"after": "\n"}, "after"),
        ("/blackboard/watch", {"prefix": "\0"}, "prefix"),
        ("/blackboard/x/history", {"after": "-1"}, "after"),
    ):
        body = assert_problem(ann.get(path, params=params), 422, "invalid_request")
        assert body["errors"][0]["field"] == field
    assert_problem(host.operator.get("/blackboard", params={"team": "a b"}), 422, "invalid_request")
    with host.client(None) as nobody:
        assert_problem(nobody.get("/blackboard"), 401, "unauthorized")


# ---------------------------------------------------------------- watchers


@pytest.mark.slow
def test_a_watcher_goes_on_where_it_was_after_the_host_was_killed(tmp_path: Path) -> None:
    with Host(tmp_path / "data") as host:
        seen: list[int] = []
        assert put(host.operator, "w/before", 0).status_code == 201
        last: str | None = host.operator.get("/blackboard", params={"prefix": "w/"}).headers["last-event-id"]
        for life in range(3):
            with Watcher(host.operator, WATCH, last, prefix="w/") as watcher:
                for number in range(5):
                    assert put(host.operator, "w/n", life * 10 + number).is_success
                    assert put(host.operator, "other", number).is_success
                seen += [one["value"] for one in watcher.take(5 if life == 0 else 6)]
                last = watcher.last
                os.kill(host.process.pid, signal.SIGKILL)
            host.start()
            assert put(host.operator, "w/n", life * 10 + 5).is_success, "while nobody watches"
        assert seen == [0, 1, 2, 3, 4, 5, 10, 11, 12, 13, 14, 15, 20, 21, 22, 23, 24]
        with Watcher(host.operator, WATCH, "999999") as watcher:
            assert watcher.take(1) == [{"kind": "events-lost", "after": 999999}]
            assert put(host.operator, "w/after", 1).is_success
            assert watcher.take(2)[1]["key"] == "w/after"
