"""`GET /results`: results of tasks of all workspaces, for the operator and for people; and where they are sent."""

from __future__ import annotations

import asyncio
import json
import re
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from queue import Queue
from typing import Any

import httpx
import pytest

from agent_host.results.callbacks.request import sign
from tests.unit.host.listener.agent import Agent

from .live import PATIENCE, Host, assert_problem
from .reporting import made, report

Callbacks = Queue[tuple[dict[str, str], bytes]]


@pytest.fixture(scope="module")
def callbacks() -> Iterator[tuple[str, Callbacks]]:
    """A receiver: its URL, and what it has got."""
    got: Callbacks = Queue()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            got.put(({name.lower(): value for name, value in self.headers.items()}, body))
            self.send_response(204)
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            del format, args

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/done", got
        server.shutdown()


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory, callbacks: tuple[str, Callbacks]) -> Iterator[Host]:
    data = tmp_path_factory.mktemp("results") / "data"
    with Host(data, MESH_CALLBACK_HOSTS=callbacks[0].split("/")[2], MESH_CALLBACK_RETRY=0.05) as host:
        yield host


def ids(client: httpx.Client, **query: Any) -> list[str]:
    reply = client.get("/results", params=query)
    assert reply.status_code == 200, reply.text
    return [row["task_id"] for row in reply.json()["results"]]


def test_results_are_listed_newest_first_by_page_and_read_one_by_one(host: Host) -> None:
    report(made(host, "list"), *({"task_id": f"t{number}"} for number in range(5)))
    assert ids(host.operator, workspace="list") == ["t4", "t3", "t2", "t1", "t0"]
    first = host.operator.get("/results", params={"workspace": "list", "limit": 2}).json()
    assert ids(host.operator, workspace="list", after=first["next"]) == ["t2", "t1", "t0"]
    last = host.operator.get("/results", params={"workspace": "list", "after": first["next"], "limit": 3}).json()
    assert (len(last["results"]), last["next"]) == (3, None)
    one = host.operator.get("/results", params={"workspace": "list", "task_id": "t4"})
    assert one.json() == first["results"][0]
    row = one.json()
    assert (row["workspace"], row["task_id"], row["user"], row["delivery"]) == ("list", "t4", "ann", None)
    assert row["result"]["result"] == {"of": "t4"}
    assert row["recorded_at"] > row["finished_at"]
    missing = host.operator.get("/results", params={"workspace": "list", "task_id": "none"})
    assert_problem(missing, 404, "not_found")


def test_a_caller_may_wait_for_a_result(host: Host) -> None:
    workspace, got = made(host, "wait"), list[httpx.Response]()
    query = {"workspace": "wait", "task_id": "slow"}
    early = host.operator.get("/results", params={**query, "wait": 0.05})
    assert (early.status_code, early.json()["status"]) == (202, "pending")

    def wait() -> None:
        with host.client("operator-token") as client:
            got.append(client.get("/results", params={**query, "wait": PATIENCE}))

    waiting = threading.Thread(target=wait)
    waiting.start()
    report(workspace, {"task_id": "other"}, {"task_id": "slow"})
    waiting.join(PATIENCE)
    assert (got[0].status_code, got[0].json()["task_id"]) == (200, "slow")
    no_task = host.operator.get("/results", params={"wait": 1})
    assert assert_problem(no_task, 422, "invalid_request")["errors"][0]["field"] == "wait"


def test_a_scoped_token_sees_its_users_results_in_its_workspaces_only(host: Host) -> None:
    for name in ("mine", "theirs"):
        report(made(host, name), {"task_id": f"{name}-ann"}, {"task_id": f"{name}-bob", "user": "bob"})
    token = host.operator.post("/tokens", json={"user": "ann", "workspaces": ["mine"]}).json()["token"]
    with host.client(token) as ann:
        assert ids(ann) == ids(ann, workspace="mine") == ids(ann, user="ann") == ["mine-ann"]
        for query in ({"workspace": "theirs"}, {"user": "bob"}, {"workspace": "theirs", "task_id": "theirs-ann"}):
            assert_problem(ann.get("/results", params=query), 403, "forbidden")
        for task_id in ("mine-bob", "theirs-ann", "theirs-bob"):
            assert_problem(ann.get("/results", params={"task_id": task_id}), 404, "not_found")
    with host.client(host.token("mine")) as agent, host.client(None) as stranger:
        assert_problem(agent.get("/results"), 403, "forbidden")
        assert stranger.get("/results").status_code == 401


def test_a_task_that_two_workspaces_have_reported_is_named_with_its_workspace(host: Host) -> None:
    report(made(host, "honest"), {"task_id": "report-1", "user": "bob"})
    token = host.operator.post("/tokens", json={"user": "ann", "workspaces": ["hostile", "honest"]}).json()["token"]
    with host.client(token) as ann:
        one = {"task_id": "report-1"}
        assert host.operator.get("/results", params=one).json()["workspace"] == "honest"
        report(made(host, "hostile"), {"task_id": "report-1", "user": "ann"})
        for query in (one, {**one, "wait": 1}):
            why = assert_problem(host.operator.get("/results", params=query), 409, "several_workspaces")["detail"]
            assert "honest and hostile" in why
        for workspace in ("honest", "hostile"):
            found = host.operator.get("/results", params={**one, "workspace": workspace}).json()
            assert found["workspace"] == workspace
        assert ann.get("/results", params=one).json()["workspace"] == "hostile", "hers alone"


def test_a_token_of_several_users_sees_their_results_only(host: Host) -> None:
    users = ("telegram:1", "telegram:10", "Telegram:1", "ann")
    report(made(host, "many"), *({"task_id": f"of-{user}", "user": user} for user in users))
    body = {"users": ["telegram:*"], "workspaces": ["many"]}
    with host.client(host.operator.post("/tokens", json=body).json()["token"]) as bot:
        assert ids(bot) == ids(bot, workspace="many") == ["of-telegram:10", "of-telegram:1"]
        assert ids(bot, user="telegram:1") == ["of-telegram:1"]
        for user in ("ann", "Telegram:1"):
            assert_problem(bot.get("/results", params={"user": user}), 403, "forbidden")
            assert_problem(bot.get("/results", params={"task_id": f"of-{user}"}), 404, "not_found")
        assert_problem(bot.get("/results", params={"user": "telegram:*"}), 422, "invalid_request")
        bot.headers["x-agent-user"] = "telegram:1"
        assert ids(bot) == ["of-telegram:1"]
        assert_problem(bot.get("/results", params={"task_id": "of-telegram:10"}), 404, "not_found")
        assert_problem(bot.get("/results", params={"user": "telegram:10"}), 422, "invalid_request")


def test_who_waits_gets_nothing_once_the_token_has_expired(host: Host) -> None:
    report(made(host, "late"), {"task_id": "early"})
    body = {"user": "ann", "workspaces": ["late"], "expires": "1s"}
    token = host.operator.post("/tokens", json=body).json()["token"]
    with host.client(token) as ann:
        assert_problem(ann.get("/results", params={"task_id": "none", "wait": 600}), 401, "unauthorized")


def test_who_waits_gets_nothing_of_a_workspace_that_is_lost_meanwhile(host: Host) -> None:
    """The next workspace of this id is not the one for which the token was made."""
    made(host, "lost")
    made(host, "kept")
    body = {"users": ["a*"], "workspaces": ["lost", "kept"]}
    token = host.operator.post("/tokens", json=body).json()["token"]
    url = httpx.URL(host.url)
    with host.client(token) as client, socket.create_connection((url.host, url.port or 0), PATIENCE) as waiting:
        assert ids(client) == []
        line = b"GET /results?workspace=lost&task_id=secret&wait=5 HTTP/1.1\r\nHost: mesh\r\n"
        waiting.sendall(line + b"Authorization: Bearer %b\r\n\r\n" % token.encode())
        assert host.operator.delete("/workspaces/lost", params={"force": "true"}).status_code == 204
        report(made(host, "lost"), {"task_id": "secret"})
        answer = waiting.recv(65_536)
    assert answer.split(b" ")[1] in (b"403", b"202"), answer  # 202: the host has read it after the deletion


def test_a_workspaces_results_are_sent_signed_with_the_secret_that_was_shown_once(
    host: Host, callbacks: tuple[str, Callbacks]
) -> None:
    url, got = callbacks
    workspace = made(host, "sent", result_url=url)
    secret = workspace["result_secret"]
    shown = host.operator.get("/workspaces/sent")
    assert secret not in shown.text
    assert shown.json()["result_url"] == url
    report(workspace, {"task_id": "one"})
    headers, body = got.get(timeout=PATIENCE)
    assert headers["x-agent-signature"] == sign(body, secret)
    row = host.operator.get("/results", params={"workspace": "sent", "task_id": "one"}).json()
    delivery = row.pop("delivery")
    assert (json.loads(body), delivery["id"]) == (row, headers["x-agent-delivery"])
    changed = host.operator.patch("/workspaces/sent", json={"result_url": None, "result_secret": "another"})
    assert (changed.status_code, changed.json()["result_url"]) == (200, None)
    report(workspace, {"task_id": "two"}, {"task_id": "three", "result_url": f"{url}?of=three"})
    headers, body = got.get(timeout=PATIENCE)
    assert json.loads(body)["task_id"] == "three"  # the task's own; `two` has none
    assert headers["x-agent-signature"] == sign(body, "another")
    assert made(host, "chosen", result_secret="mine")["result_secret"] is None


def test_work_that_is_a_task_has_its_result_there_too(host: Host) -> None:
    workspace = made(host, "work")

    async def carry_out() -> None:
        async with Agent(workspace["mediation_url"], "work", workspace["mediation_key"]) as agent:
            await agent.attach()
            request = await agent.request()
            agent.accept(request)
            agent.result(request, content=json.dumps({"task_id": "x", "status": "complete", "result": {"n": 1}}))
            agent.complete(request)
            await agent.expect("ack")

    work = {"workspace": "work", "request": {"request_id": "job", "content": "{}", "content_kind": "json"}}
    assert host.operator.post("/work", json=work).status_code == 202
    asyncio.run(carry_out())
    row = host.operator.get("/results", params={"workspace": "work", "task_id": "job"}).json()
    assert (row["user"], row["result"]["result"]) == ("operator", {"n": 1})


@pytest.mark.parametrize(
    "url", ["http://example.org/", "https://127.0.0.1/", "https://10.0.0.1/", "https://a:b@example.org/", "nonsense"]
)
def test_a_url_that_may_not_be_called_is_refused_when_it_is_given(host: Host, url: str) -> None:
    created = host.operator.post("/workspaces", json={"id": "refused", "driver": "external", "result_url": url})
    problem = assert_problem(created, 422, "invalid_request")
    assert problem["errors"][0]["field"] == "result_url"
    made_before = host.operator.get("/workspaces/refused")
    assert made_before.status_code == 404
    if host.operator.get("/workspaces/posted").status_code == 404:
        made(host, "posted")
    assert_problem(host.operator.patch("/workspaces/posted", json={"result_url": url}), 422, "invalid_request")
    content = json.dumps({"task_type": "sum", "input_data": {}, "result_url": url})
    work = {"workspace": "posted", "request": {"content": content, "content_kind": "structured"}}
    assert_problem(host.operator.post("/work", json=work), 422, "invalid_request")


def test_the_example_of_the_page_checks_a_signature() -> None:
    page = (Path(__file__).parents[3] / "docs/reference/results.md").read_text("utf-8")
    (example,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    names: dict[str, Any] = {}
    exec(example, names)  # noqa: S102  the page is ours
    check = names["is_from_the_host"]
    assert check(b"{}", sign(b"{}", "s"), "s")
    assert not check(b"{} ", sign(b"{}", "s"), "s")
