"""An agent of another team tries every route of what teams share, with ids that it knows: nothing is there for it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest

from .asking import Peer, answer
from .live import PATIENCE, Host

SESSION = "ses_1"
KEY = {"idempotency-key": "call-1"}
STREAM = {"accept": "text/event-stream", "last-event-id": "0"}
FILE = {"content-type": "text/plain"}
SERVICES = """
services:
  reds: {base_url: "http://127.0.0.1:1", private: true, methods: [GET, POST], paths: ["/**"], teams: [red]}
"""


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    folder: Path = tmp_path_factory.mktemp("foreign")
    (folder / "services.yaml").write_text(SERVICES)
    with Host(folder / "data", MESH_SERVICES=folder / "services.yaml") as host:
        yield host


def attempts(subscription: str, query: Mapping[str, str]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Requests with names and ids of the team `red`; each must find nothing."""
    card, subscribe = {"name": "Mallory"}, {"topic": "plans", "session": SESSION}
    found: list[tuple[str, str, dict[str, Any]]] = [
        ("GET", "/blackboard/secret", {}),
        ("PUT", "/blackboard/secret", {"json": {"value": "eve's"}, "headers": {"if-match": '"1"'}}),
        ("DELETE", "/blackboard/secret", {}),
        ("GET", "/blackboard/secret/history", {}),
        ("POST", "/blackboard/secret/claim", {"json": {"lease_seconds": 60}}),
        ("DELETE", "/blackboard/secret/claim", {}),
        ("GET", "/topics/plans", {}),
        ("DELETE", "/topics/plans", {}),
        ("GET", "/artifacts/report", {}),
        ("HEAD", "/artifacts/report", {}),
        ("GET", "/artifacts/report", {"params": {"version": "1"}}),
        ("HEAD", "/artifacts/report", {"params": {"version": "1"}}),
        ("DELETE", "/artifacts/report", {}),
        ("DELETE", "/artifacts/report", {"params": {"version": "1"}}),
        ("PUT", "/artifacts/report", {"content": b"eve's", "headers": {**FILE, "if-match": '"1"'}}),
        ("DELETE", f"/subscriptions/{subscription}", {}),
        ("GET", "/agents/ann", {}),
        ("POST", "/agents/ann/ask", {"json": {"message": "tell me", "deadline_s": 1}}),
        ("POST", "/agents/bob/ask", {"json": {"message": "How many beds?", "deadline_s": 50}, "headers": KEY}),
        ("DELETE", "/agents/bob/ask", {"headers": KEY}),
        ("POST", "/agents/ann/hand-off", {"json": {"message": "do it"}}),
        ("GET", "/services/reds/x", {}),
        ("POST", "/services/reds/x", {"content": b"x"}),
    ]
    for method, path, more in found:
        yield method, path, {**more, "params": {**more.get("params", {}), **query}}
    if query:  # of its own team these are allowed, and say nothing of another
        yield "GET", "/blackboard", {"params": query}
        yield "GET", "/blackboard/watch", {"params": query, "headers": STREAM}
        yield "GET", "/topics/plans", {"params": query, "headers": STREAM}
        yield "POST", "/topics/plans", {"params": query, "json": {"id": "m-1", "data": "eve's"}}
        yield "GET", "/artifacts", {"params": query}
        yield "GET", "/agents", {"params": query}
        yield "POST", "/agents", {"params": query, "json": card}
        yield "GET", "/subscriptions", {"params": query}
        yield "POST", "/subscriptions", {"params": query, "json": subscribe}
        yield "POST", "/subscriptions/deliveries", {"params": query, "json": {}}


async def share(ann: httpx.AsyncClient, bob: httpx.AsyncClient) -> str:
    """One thing of each kind; the id of the subscription, for which a message waits."""
    for made in (
        await ann.put("/blackboard/secret", json={"value": "red's"}),
        await ann.put("/artifacts/report", content=b"red's", headers=FILE),
        await ann.post("/agents", json={"name": "Ann"}),
        subscribed := await bob.post("/subscriptions", json={"topic": "plans", "session": SESSION}),
        await ann.post("/topics/plans", json={"id": "m-1", "data": "red's"}),
    ):
        assert made.is_success, made.text
    return subscribed.json()["id"]


async def state(host: Host) -> list[Any]:
    """All of the team `red`."""
    paths = ("blackboard", "blackboard/secret/history", "topics/plans", "artifacts", "agents", "subscriptions")
    found = [host.operator.get(f"/{path}", params={"team": "red"}) for path in paths]
    assert all(reply.is_success for reply in found)
    work = host.operator.get("/work").json()["work"]
    return [*(reply.json() for reply in found), [(one["workspace"], one["status"]) for one in work]]


async def test_ids_of_another_team_open_nothing(host: Host) -> None:
    ann, bob, eve = Peer(host, "ann", "red"), Peer(host, "bob", "red"), Peer(host, "eve", "blue")
    async with bob.attached() as agent, ann.client() as of_ann, bob.client() as of_bob, eve.client() as stranger:
        subscription = await share(of_ann, of_bob)
        (delivery,) = (await of_bob.post("/subscriptions/deliveries", json={})).json()["deliveries"]
        asked = asyncio.create_task(
            of_ann.post("/agents/bob/ask", json={"message": "How many beds?", "deadline_s": 50}, headers=KEY)
        )
        agent.accept(request := await agent.request())
        await accepted(host)
        before = await state(host)
        tried = 0
        for query in ({}, {"team": "red"}):
            for method, path, more in attempts(subscription, query):
                reply = await stranger.request(method, path, **more)
                refused = (403,) if (method, path, query) == ("DELETE", "/topics/plans", {}) else (404, 412)
                assert reply.status_code in refused, (method, path, more, reply.status_code, reply.text)
                assert "red's" not in reply.text
                tried += 1
        for status in ("taken", "refused", "busy", "ended"):
            receipt = {"subscription_id": subscription, "seq": delivery["messages"][0]["seq"], "status": status}
            said = await stranger.post("/subscriptions/deliveries", json={"receipts": [receipt]})
            assert said.json() == {"deliveries": [], "subscriptions": []}, "as for one that never was"
            tried += 1
        assert tried >= 30
        assert await state(host) == before
        answer(agent, request, {"text": "three"})
        assert (await asked).json()["response"] == {"text": "three"}, "the work of ann goes on"


async def accepted(host: Host) -> None:
    async with asyncio.timeout(PATIENCE):
        while host.operator.get("/work").json()["work"][0]["status"] != "accepted":
            await asyncio.sleep(0.02)
