"""A live agent subscribes by its tool and gets what others publish, once and in order, over kills of both ends."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from agent_testing import Call, Hang, Say, ScriptedProvider
from tests.integration.host.live import Host
from tests.integration.host.members import make_member
from tests.integration.host.reporting import made
from tests.ports import free_port

from ..live import Runtime, eventually, fresh

pytestmark = pytest.mark.slow
Lives = tuple[Host, Runtime, dict[str, str]]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lives]:
    """A host, `bob` of the team `red`, and the tokens of `ann` of his team and `eve` of another."""
    folder = tmp_path_factory.mktemp("subscriptions")
    with Host(folder / "mesh", MESH_PORT=free_port()) as host, ScriptedProvider() as provider:
        tokens = {name: make_member(host, name, team) for name, team in (("ann", "red"), ("eve", "blue"))}
        made(host, "bob", team="red")
        where = {"AGENT_MESH_URL": host.url, "AGENT_MESH_TOKEN": host.token("bob")}
        with Runtime(provider, folder / "data", AGENT_ID="bob", **where) as bob:
            yield host, bob, tokens


def use(bob: Runtime, name: str, tool: str, **arguments: object) -> dict[str, Any]:
    """One call of a tool in a conversation: its envelope."""
    rest(bob)
    bob.provider.script.replace([Call(tool, arguments), Say("done")])
    reply = bob.chat("go", session_id=name)
    assert reply.status_code == 200, reply.text
    return reply.json()["tool_outputs"][-1]["output"]


def rest(bob: Runtime) -> None:
    """Wait until no turn runs: a delivery of the test before would take this one's step."""
    eventually(lambda: bob.status()["state"] == "idle")


def publish(host: Host, token: str, topic: str, *data: object) -> None:
    with host.client(token) as client:
        for one in data:
            reply = client.post(f"/topics/{topic}", json={"data": one})
            assert reply.status_code == 201, reply.text


def session_id(bob: Runtime, name: str) -> str:
    (row,) = bob.sql("SELECT session_id FROM session_aliases WHERE alias = ?", name)
    return row["session_id"]


def numbers(bob: Runtime, name: str) -> list[int]:
    """The numbers of the messages that topics have brought to a conversation, in its order."""
    rows = bob.sql(
        "SELECT p.data_json FROM chat_messages m JOIN chat_parts p ON p.message_id = m.id WHERE m.session_id = ?"
        " AND json_extract(m.metadata_json, '$.trigger.source') = 'topic' ORDER BY m.created_at, m.rowid",
        session_id(bob, name),
    )
    texts = [json.loads(row["data_json"])["text"] for row in rows]
    return [int(one) for text in texts for one in re.findall(r"number (\d+), by", text)]


def subscriptions(host: Host, **query: str) -> list[dict[str, Any]]:
    return host.operator.get("/subscriptions", params=query).json()["subscriptions"]


def test_a_session_subscribes_gets_and_ends(world: Lives) -> None:
    host, bob, tokens = world
    name = fresh("s")
    assert use(bob, name, "subscribe", topic="orders")["data"] == {
        "subscribed": True,
        "topic": "orders",
        "known": False,
    }
    assert use(bob, name, "subscribe", topic="orders")["data"]["known"] is True
    use(bob, name, "publish_event", topic="orders", data="its own")
    publish(host, tokens["eve"], "orders", "of another team")
    bob.provider.script.replace([Say("I have seen it.")])
    publish(host, tokens["ann"], "orders", {"beds": 3})
    eventually(lambda: any(part.get("text") == "I have seen it." for part in bob.parts(session_id(bob, name))))
    assert numbers(bob, name) == [2]
    assert '{"beds":3}' in str(bob.provider.completions[-1].messages[-1]["content"])
    (one,) = use(bob, name, "subscribe", action="list")["data"]["subscriptions"]
    assert one == {"topic": "orders", "waiting": 0, "dropped": 0}
    assert use(bob, name, "subscribe", topic="orders", action="unsubscribe")["data"]["subscribed"] is False
    assert subscriptions(host, agent="bob", topic="orders") == []


def test_who_may_not_subscribe(world: Lives) -> None:
    _, bob, _ = world
    rest(bob)
    bob.provider.script.replace([Call("subscribe", {"topic": "orders"}), Say("no")])
    bob.run(objective="subscribe")
    assert "only a conversation subscribes" in str(bob.provider.completions[-1].messages)
    missing = use(bob, fresh("s"), "subscribe", action="unsubscribe")
    assert "topic: is needed" in str(missing)


def test_a_message_joins_the_turn_that_runs(world: Lives) -> None:
    host, bob, tokens = world
    name = fresh("s")
    use(bob, name, "subscribe", topic="steer")
    bob.provider.script.replace([Hang(0, Say(calls=(Call("todo", {"todos": []}),))), Say("joined")])
    before = len(bob.provider.completions)
    with bob.stream("POST", "/chat/stream", {"message": "work", "session_id": name}):
        eventually(lambda: len(bob.provider.completions) == before + 1)
        publish(host, tokens["ann"], "steer", "hurry")
        eventually(lambda: numbers(bob, name) == [1])
        bob.provider.release()
        eventually(lambda: len(bob.provider.completions) == before + 2)
    assert "hurry" in str(bob.provider.completions[-1].messages)
    outcomes = bob.sql("SELECT outcome_json FROM turns WHERE session_id = ? ORDER BY seq", session_id(bob, name))
    eventually(lambda: bob.sql("SELECT 1 FROM turns WHERE state != 'ended'") == [])
    assert json.loads(outcomes[-1][0])["status"] == "steered"


def test_each_message_comes_once_over_kills_of_both(world: Lives) -> None:
    host, bob, tokens = world
    name = fresh("s")
    use(bob, name, "subscribe", topic="storm")
    bob.provider.script.replace(lambda _: Say("ok"))
    for life in range(3):
        publish(host, tokens["ann"], "storm", *range(4))
        if life != 1:
            os.kill(bob.process.pid, signal.SIGKILL)
        publish(host, tokens["ann"], "storm", *range(3))
        if life != 0:
            os.kill(host.process.pid, signal.SIGKILL)
            host.start()
        if life != 1:
            bob.start()
        publish(host, tokens["ann"], "storm", *range(3))
        eventually(lambda: len(numbers(bob, name)) >= 10 * (life + 1), timeout=120)  # noqa: B023
    assert numbers(bob, name) == [*range(1, 31)]
    assert host.operator.get("/subscriptions/dead-letters").json()["dead_letters"] == []
    eventually(lambda: [one["waiting"] for one in subscriptions(host, topic="storm")] == [0])


def test_what_comes_while_the_agent_is_away_waits(world: Lives) -> None:
    host, bob, tokens = world
    name = fresh("s")
    use(bob, name, "subscribe", topic="away")
    bob.process.kill9()
    publish(host, tokens["ann"], "away", *range(5))
    (shown,) = subscriptions(host, topic="away")
    assert (shown["waiting"], shown["session"]) == (5, session_id(bob, name))
    bob.start()
    bob.provider.script.replace(lambda _: Say("ok"))
    eventually(lambda: numbers(bob, name) == [1, 2, 3, 4, 5])


def test_the_subscription_ends_with_its_session(world: Lives) -> None:
    host, bob, _ = world
    name = fresh("s")
    use(bob, name, "subscribe", topic="gone")
    assert len(subscriptions(host, topic="gone")) == 1
    assert bob.http.delete(f"/sessions/{name}").status_code in (200, 204)
    bob.process.kill9()
    bob.start()
    eventually(lambda: subscriptions(host, topic="gone") == [])


def test_a_notice_is_an_event(world: Lives) -> None:
    _, bob, _ = world
    name = fresh("s")
    assert use(bob, name, "notify_user", text="The **build** is done.")["data"] == {"notified": True}
    with bob.client(**{"Authorization": "Bearer sesame", "Last-Event-ID": "0"}) as client:
        found = _first_notice(client)
    assert (found["text"], found["user"], found["session_id"]) == (
        *("The **build** is done.", "operator"),
        session_id(bob, name),
    )
    for _ in range(4):
        use(bob, name, "notify_user", text="again")
    assert "5 messages in a short time" in str(use(bob, name, "notify_user", text="too much"))


def _first_notice(client: httpx.Client) -> dict[str, Any]:
    with client.stream("GET", "/events") as reply:
        for line in reply.iter_lines():
            if line.startswith("data: ") and (event := json.loads(line[6:]))["type"] == "notice":
                return event
    raise AssertionError("there is no notice")
