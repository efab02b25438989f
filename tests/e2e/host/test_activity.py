"""`/pending` and `/events` of the host: what waits and what happens in all its agents, whatever one of them does."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Generator, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import httpx
import psutil
import pytest

from agent_testing import Call, Say, ScriptedProvider
from tests.integration.host.live import PATIENCE, Host, assert_problem, catalog
from tests.integration.host.watching import eventually

ASK = {"questions": [{"question": "Which colour?"}]}
World = tuple[Host, ScriptedProvider]


@pytest.fixture(scope="module")
def _world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("activity")
    settings = {"UPSTREAM_KEY": "sk-1", "MESH_STOP_GRACE": 2, "MESH_RESTART": "false"}
    with (
        ScriptedProvider() as provider,
        Host(folder / "data", MESH_MODELS=catalog(folder, provider), **settings) as host,
    ):
        for name in ("ada", "bea"):
            assert host.operator.post("/workspaces", json={"id": name}).status_code == 201
            assert host.operator.post(f"/workspaces/{name}/start").status_code == 200
        yield host, provider


@pytest.fixture
def world(_world: World) -> Iterator[World]:
    host, provider = _world
    provider.script.replace(None, otherwise=Say("well said"))
    yield host, provider
    provider.release()
    for row in host.operator.get("/pending").json()["pending"]:
        answer(host.operator, row, f"{row['session_id']}/abort", {})


def answer(client: httpx.Client, row: dict[str, Any], path: str, body: dict[str, Any]) -> httpx.Response:
    headers = {"x-agent-user": row["user"]}
    return client.post(f"/workspaces/{row['workspace']}/api/chat/{path}", json=body, headers=headers)


def until_idle(host: Host) -> None:
    """Wait until no turn runs: the agents share the model's script."""
    for workspace in ("ada", "bea"):
        status = f"/workspaces/{workspace}/api/status"
        eventually(lambda at=status: host.operator.get(at).json().get("state") != "working")


def ask(world: World, workspace: str, user: str, call_id: str) -> dict[str, Any]:
    """The row of a question that now waits in that agent."""
    host, provider = world
    until_idle(host)
    provider.script.replace([Call("question", ASK, id=call_id)], otherwise=Say("done"))
    url, body = f"/workspaces/{workspace}/api/chat", {"message": "paint", "session_id": f"of-{call_id}"}
    reply = host.operator.post(url, json=body, headers={"x-agent-user": user})
    assert (reply.status_code, reply.json()["status"]) == (202, "waiting"), reply.text
    return next(row for row in host.operator.get("/pending").json()["pending"] if row["id"] == call_id)


def ids(client: httpx.Client, **query: Any) -> list[str]:
    reply = client.get("/pending", params=query)
    assert reply.status_code == 200, reply.text
    return [row["id"] for row in reply.json()["pending"]]


@contextmanager
def scoped(host: Host, user: str | list[str], *workspaces: str) -> Generator[httpx.Client]:
    body = {"user" if isinstance(user, str) else "users": user, "workspaces": workspaces}
    with host.client(host.operator.post("/tokens", json=body).json()["token"]) as client:
        yield client


class Watcher:
    """Reads `/events` of the host."""

    def __init__(self, client: httpx.Client, stack: ExitStack, last: int | None = None, **query: str) -> None:
        headers = {} if last is None else {"last-event-id": str(last)}
        response = stack.enter_context(client.stream("GET", "/events", params=query, headers=headers))
        assert response.status_code == 200, response.read()
        self._lines = response.iter_lines()
        assert next(self._lines) == ": watching"
        self._first = dict([next(self._lines).split(": ", 1)])
        self.last = int(self._first["id"])

    def next(self) -> dict[str, Any]:
        event, self._first = self._first, {}
        for line in self._lines:
            if line and not line.startswith(":"):
                name, _, value = line.partition(": ")
                event[name] = value
            elif not line and "data" in event:
                self.last = int(event["id"])
                body = json.loads(event["data"])
                assert body["type"] == event["event"]
                return body
            elif not line:
                self.last, event = int(event.get("id", self.last)), {}
        raise AssertionError("the stream has ended")

    def until(self, **wanted: Any) -> dict[str, Any]:
        while not wanted.items() <= (event := self.next()).items():
            pass
        return event


def position(host: Host) -> int:
    with ExitStack() as stack:
        return Watcher(host.operator, stack).last


def process_of(host: Host, workspace: str) -> psutil.Process:
    port = host.operator.get(f"/workspaces/{workspace}").json()["url"].rpartition(":")[2]
    for child in psutil.Process(host.process.pid).children(recursive=True):
        if port in {str(one.laddr.port) for one in child.net_connections() if one.status == "LISTEN"}:
            return child
    raise AssertionError(f"{workspace} has no process")


def test_what_waits_in_all_agents_is_one_list(world: World) -> None:
    host, _ = world
    rows = [ask(world, workspace, "ann", f"c{n}") for n, workspace in enumerate(("bea", "ada", "bea", "ada"))]
    whole = host.operator.get("/pending").json()
    assert whole == {"pending": rows, "next": None, "unreachable": []}
    assert [row["workspace"] for row in rows] == ["bea", "ada", "bea", "ada"]
    assert (rows[0]["tool"], rows[0]["input"], rows[0]["user"]) == ("question", ASK, "ann")
    assert (ids(host.operator, workspace="ada"), ids(host.operator, user="bob")) == (["c1", "c3"], [])
    pages, after = list[dict[str, Any]](), {}
    while True:
        page = host.operator.get("/pending", params={"limit": 1, **after}).json()
        pages += page["pending"]
        if page["next"] is None:
            break
        after = {"after": page["next"]}
    assert pages == rows
    answered = answer(host.operator, rows[1], f"{rows[1]['session_id']}/answer", {"id": "c1", "answers": [["blue"]]})
    assert answered.status_code == 200, answered.text
    assert ids(host.operator) == ["c0", "c2", "c3"]


@pytest.mark.slow
def test_a_scoped_token_sees_its_user_in_its_workspaces(world: World) -> None:
    host, _ = world
    before = position(host)
    for number, (workspace, user) in enumerate([("ada", "ann"), ("ada", "bob"), ("bea", "ann")]):
        ask(world, workspace, user, f"s{number}")
    with scoped(host, "ann", "ada") as ann, ExitStack() as stack:
        assert ids(ann) == ids(ann, user="ann") == ids(ann, workspace="ada") == ["s0"]
        for query in ({"user": "bob"}, {"workspace": "bea"}):
            assert_problem(ann.get("/pending", params=query), 403, "forbidden")
        assert_problem(ann.get("/events", params={"workspace": "bea"}), 403, "forbidden")
        hers, everything = Watcher(ann, stack, before), Watcher(host.operator, stack, before)
        everything.until(type="approval-requested", id="s2")
        assert host.operator.post("/workspaces/bea/drain", json={}).status_code == 200
        assert host.operator.post("/workspaces/ada/drain", json={}).status_code == 200
        assert host.operator.post("/workspaces/ada/start").status_code == 200
        assert host.operator.post("/workspaces/bea/start").status_code == 200
        seen = [hers.next()]
        while seen[-1].get("change") != "drained":
            seen.append(hers.next())
        assert {event["workspace"] for event in seen} == {"ada"}
        assert {event["user"] for event in seen if "user" in event} == {"ann"}
        assert [event["id"] for event in seen if event["type"] == "approval-requested"] == ["s0"]
    with host.client(host.token("ada")) as agent, host.client(None) as stranger:
        for path in ("/pending", "/events"):
            assert_problem(agent.get(path), 403, "forbidden")
            assert_problem(stranger.get(path), 401, "unauthorized")
    assert_problem(host.operator.get("/pending", params={"workspace": "nobody"}), 404, "not_found")
    assert_problem(host.operator.get("/pending", params={"after": "x"}), 422, "invalid_request")


def test_a_token_of_several_users_sees_them_and_the_one_that_is_named(world: World) -> None:
    host, _ = world
    before = position(host)
    for number, user in enumerate(["t:1", "ann", "t:10", "T:1"]):
        ask(world, "ada", user, f"m{number}")
    with scoped(host, ["t:*", "x"], "ada") as bot, ExitStack() as stack:
        assert (ids(bot), ids(bot, user="t:1")) == (["m0", "m2"], ["m0"])
        for path in ("/pending", "/events"):
            assert_problem(bot.get(path, params={"user": "ann"}), 403, "forbidden")
            assert_problem(bot.get(path, params={"workspace": "bea"}), 403, "forbidden")
            assert_problem(bot.get(path, params={"user": "t:*"}), 422, "invalid_request")
        theirs, everything = Watcher(bot, stack, before), Watcher(host.operator, stack, before)
        hers = Watcher(bot, stack, before, user="t:10")
        anns = Watcher(host.operator, stack, before, user="ann")
        everything.until(type="approval-requested", id="m3")
        assert host.operator.post("/workspaces/ada/drain", json={}).status_code == 200
        assert host.operator.post("/workspaces/ada/start").status_code == 200
        for watcher, users in ((theirs, {"t:1", "t:10"}), (hers, {"t:10"}), (anns, {"ann"})):
            seen = [watcher.next()]
            while seen[-1].get("change") != "drained":
                seen.append(watcher.next())
            assert {event["user"] for event in seen if "user" in event} == users
        bot.headers["x-agent-user"] = "t:10"
        assert ids(bot) == ["m2"]
        assert_problem(bot.get("/pending", params={"user": "t:1"}), 422, "invalid_request")
        bot.headers["x-agent-user"] = "ann"
        assert_problem(bot.get("/events"), 403, "forbidden")


@pytest.mark.slow
def test_an_agent_that_hangs_holds_up_nobody(world: World) -> None:
    host, _ = world
    ask(world, "ada", "ann", "h0")
    ask(world, "bea", "ann", "h1")
    hung = process_of(host, "bea")
    hung.suspend()
    try:
        began = time.monotonic()
        found = host.operator.get("/pending").json()
        assert time.monotonic() - began < PATIENCE / 2
        assert [row["id"] for row in found["pending"]] == ["h0"]
        assert [(one["workspace"], one["code"]) for one in found["unreachable"]] == [("bea", "agent_unreachable")]
    finally:
        hung.resume()
    assert ids(host.operator) == ["h0", "h1"]


def test_a_workspace_that_does_not_run_is_named(world: World) -> None:
    host, _ = world
    assert host.operator.post("/workspaces", json={"id": "idle"}).status_code == 201
    found = host.operator.get("/pending", params={"workspace": "idle"}).json()
    assert [(one["workspace"], one["code"]) for one in found["unreachable"]] == [("idle", "not_running")]
    assert host.operator.get("/pending").json()["unreachable"] == []


def test_events_of_agents_work_and_fleet_come_in_one_stream_and_again(world: World) -> None:
    host, provider = world
    with ExitStack() as stack:
        watcher = Watcher(host.operator, stack)
        begin = watcher.last
        row = ask(world, "ada", "ann", "e0")
        asked = watcher.until(type="approval-requested")
        assert {name: asked.get(name) for name in row} == row
        answer(host.operator, row, f"{row['session_id']}/answer", {"id": "e0", "answers": [["blue"]]})
        resolved = watcher.until(type="approval-resolved")
        assert (resolved["workspace"], resolved["id"], resolved["outcome"]) == ("ada", "e0", "answered")
        watcher.until(type="turn-finished", workspace="ada", user="ann")
        provider.script.replace([Say("done")])
        body = {"workspace": "ada", "request": {"request_id": "w1", "content": "work", "principal": {"name": "bob"}}}
        assert host.operator.post("/work", json=body).status_code == 202
        done = watcher.until(type="work-changed", status="resulted")
        assert (done["request_id"], done["workspace"], done["user"]) == ("w1", "ada", "bob")
        for path in ("/workspaces", "/workspaces/new/start", "/workspaces/new/quarantine"):
            assert host.operator.post(path, json={"id": "new"} if path == "/workspaces" else {}).status_code < 300
        assert host.operator.delete("/workspaces/new").status_code == 204
        watcher.until(type="workspace-changed", workspace="new", change="deleted")
        again, of_ada = Watcher(host.operator, stack, begin), Watcher(host.operator, stack, begin, workspace="ada")
        replayed = [again.next()]
        while again.last < watcher.last:
            replayed.append(again.next())
        assert {event["workspace"] for event in replayed} >= {"ada", "new"}, "the third one may still be starting"
        of_new = [event["change"] for event in replayed if event["workspace"] == "new" and "change" in event]
        fenced = of_new.index("quarantined")
        assert 3 <= fenced <= 5, "told once it is stored, while its agent is stopped"
        del of_new[fenced]
        assert of_new == ["created", "starting", "running", "stopping", "stopped", "deleting", "deleted"]
        statuses = [event["status"] for event in replayed if event["type"] == "work-changed"]
        assert statuses[-1] == "resulted"
        assert 2 <= len(statuses) == len(set(statuses)), "each once; those before the answer may share a commit"
        only = [event for event in replayed if event["workspace"] == "ada"]
        assert [of_ada.next() for _ in only] == only
        lost = Watcher(host.operator, stack, 1)
        assert lost.next()["type"] == "events-lost"
        assert lost.next()["at"] <= replayed[0]["at"]


@pytest.mark.slow
def test_events_that_nobody_watched_come_over_a_restart_of_the_agent(world: World) -> None:
    host, _ = world
    ask(world, "bea", "ann", "r0")
    begin = position(host)
    os.kill(process_of(host, "bea").pid, signal.SIGKILL)
    with ExitStack() as stack:
        watcher = Watcher(host.operator, stack, begin)
        watcher.until(type="workspace-changed", workspace="bea", change="failed")
        assert host.operator.post("/workspaces/bea/start").status_code == 200
        [row] = [row for row in host.operator.get("/pending").json()["pending"] if row["workspace"] == "bea"]
        assert row["id"] == "r0"
        answer(host.operator, row, f"{row['session_id']}/answer", {"id": "r0", "answers": [["blue"]]})
        assert watcher.until(type="approval-resolved")["id"] == "r0"


def test_a_revoked_token_loses_its_stream(world: World) -> None:
    host, _ = world
    made = host.operator.post("/tokens", json={"user": "ann", "workspaces": ["ada"]}).json()
    ended = threading.Event()
    with host.client(made["token"]) as ann, ann.stream("GET", "/events") as response:
        assert response.status_code == 200

        def read() -> None:
            try:
                for _ in response.iter_raw():
                    pass
            except httpx.TransportError:
                pass
            ended.set()

        threading.Thread(target=read, daemon=True).start()
        assert host.operator.delete(f"/tokens/{made['id']}").status_code == 204
        assert ended.wait(PATIENCE)


@pytest.mark.slow
def test_a_killed_host_shows_what_waits_and_says_that_events_are_lost(world: World) -> None:
    host, _ = world
    row = ask(world, "ada", "ann", "k0")
    last = position(host)
    os.kill(host.process.pid, signal.SIGKILL)
    host.start()
    with ExitStack() as stack:
        watcher = Watcher(host.operator, stack, last)
        assert watcher.next()["type"] == "events-lost"
        watcher.until(type="workspace-changed", workspace="ada", change="running")
        assert watcher.last > last
        assert host.operator.get("/pending").json()["pending"] == [row]
        answer(host.operator, row, f"{row['session_id']}/answer", {"id": "k0", "answers": [["blue"]]})
        assert watcher.until(type="approval-resolved")["id"] == "k0"
