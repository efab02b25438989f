"""The densest JSON into every place where a host keeps JSON or text, by its routes and by frames of an agent. It then
answers whoever reads all of it at once, and does so in its next life too."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.integration.host.live import Host
from tests.memory_limit import HOST_MIB, peak_mib

from .attached_guest import NOW, Guest
from .densest import MANY, MEMBERS, NUMBERS, Send, dense, fill, post, quoted, read_at_once, replay
from .listening_host import ListeningHost

LISTS = (
    *("/work?limit=1000", "/audit?limit=1000", "/workspaces", "/results", "/pending", "/usage", "/metrics"),
    *("/blackboard?limit=1000", "/blackboard/one", "/blackboard/one/history", "/topics/news?limit=1000"),
    *("/artifacts?limit=1000", "/agents?limit=1000", "/subscriptions?limit=1000", "/subscriptions/dead-letters"),
)


def places(host: Host, agent: httpx.Client) -> dict[str, Send]:
    """What a host keeps, each with a way to send it a value."""
    at = host.operator

    def name() -> bytes:
        return b"n%d" % next(NUMBERS)

    def work(value: bytes) -> httpx.Response:
        body = b'{"workspace":"evil","request":{"request_id":"%b","content_kind":"json","content":%b}}'
        return post(at, "POST", "/work", body % (name(), quoted(value)))

    def constraints(payload: bytes) -> httpx.Response:
        body = b'{"version":%d,"payload":%b}' % (next(NUMBERS) + 1, payload)
        return post(at, "POST", "/workspaces/held/constraints", body)

    def workspace(value: bytes) -> httpx.Response:
        body = b'{"id":"%b","driver":"process","settings":{"AGENT_MODEL":%b}}' % (name(), quoted(value))
        return post(at, "POST", "/workspaces", body)

    def topic(value: bytes) -> httpx.Response:
        return post(agent, "POST", "/topics/news", b'{"data":%b}' % value)

    def artifact(value: bytes) -> httpx.Response:
        return post(agent, "PUT", f"/artifacts/{name().decode()}", value)

    def card(value: bytes) -> httpx.Response:
        tools = b"[" + b",".join([b'"x"'] * value.count(b",")) + b"]"
        return post(agent, "POST", "/agents", b'{"name":"evil","tools":%b}' % tools)

    return {
        "work": work,
        "constraints": lambda value: constraints(b'{"a":%b}' % value),
        "settings of a workspace": workspace,
        "a value of the blackboard": lambda value: post(
            agent, "PUT", f"/blackboard/{name().decode()}", b'{"value":%b}' % value
        ),
        "the same value again": lambda value: post(agent, "PUT", "/blackboard/one", b'{"value":%b}' % value),
        "a message of a topic": topic,
        "an artifact": artifact,
        "a subscription": lambda value: post(
            agent, "POST", "/subscriptions", b'{"session":"%b","topic":"news"}' % name()
        ),
        "a card": card,
        "a hand-off": lambda value: post(agent, "POST", "/agents/held/hand-off", b'{"message":%b}' % quoted(value)),
    }


def frames(member: bytes) -> list[bytes]:
    """What an agent may say, with a value in each place: as many values as a frame may have."""
    text, value = dense(member, 16_000).decode(), json.loads(dense(member, 16_000))
    told = {"status": "completed", "completed_at": NOW, "audit_ref": "x", "content": text}
    said: list[dict[str, Any]] = [
        *({"request_id": f"r-{number}", **told} for number in range(MANY)),
        *({"ctl": "progress", "request_id": "r-0", "seq": n, "kind": "text", "text": text} for n in range(MANY)),
        *({"ctl": "report", "seq": number, "kind": "event", "body": value} for number in range(MANY)),
        *({"ctl": f"x{number}", "body": value} for number in range(MANY)),
    ]
    return [json.dumps(one).encode() for one in said]


@pytest.mark.timeout(1800)
def test_a_host_keeps_the_densest_values_and_lives(tmp_path: Path) -> None:
    with ListeningHost(tmp_path) as host:
        key = host.enrol("evil")
        host.enrol("held")
        token = host.token("evil")
        for number in range(MANY):
            request = {"request_id": f"r-{number}", "content": "x"}
            assert host.operator.post("/work", json={"workspace": "evil", "request": request}).status_code == 202
        for member in MEMBERS:
            with Guest(host.port, "evil", key) as guest:
                guest.send(frames(member))
        with host.client(token) as agent:
            for place, send in places(host, agent).items():
                kept = fill(send)
                print(f"{place}: {kept} kept, {peak_mib(host.process.pid)} MiB")
        for _ in range(2):
            read_at_once(host.operator, LISTS)
            replay(host.operator, "/events")
            with host.client(token) as agent:
                read_at_once(agent, ("/blackboard?limit=1000", "/topics/news?limit=1000", "/subscriptions"))
                assert agent.post("/subscriptions/deliveries", json={}).status_code == 200
            print(f"all was read: {peak_mib(host.process.pid)} MiB")
            assert peak_mib(host.process.pid) < HOST_MIB
            host.start()
        assert host.operator.get("/healthz").status_code == 200
