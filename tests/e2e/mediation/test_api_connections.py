"""An agent opens connections to its HTTP API when its host asks, and proves on each that it is itself."""

from __future__ import annotations

from contextlib import ExitStack
from http.client import HTTPResponse
from pathlib import Path

import pytest

from agent_common.protocol.work import api_challenge, verify_mac
from agent_runtime.mediation.channel.api_connections import MAX_CONNECTIONS
from tests.e2e.conftest import Start
from tests.e2e.live import PATIENCE, TOKEN, Runtime

from .host import KEY, Host, Peer

pytestmark = pytest.mark.slow


def offering(start: Start, host: Host, folder: Path, **settings: object) -> Runtime:
    key = folder / "key"
    key.write_bytes(KEY)
    given = {"AGENT_MEDIATION_URL": host.url, "AGENT_MEDIATION_KEY_FILE": key, "AGENT_MEDIATION_API": "true"}
    return start(**(given | settings))


def asked(peer: Peer, host: Host, name: str = "one") -> Peer:
    """The connection that the agent opens when it is asked for one."""
    peer.send({"ctl": "open_api", "id": name})
    way = host.accept()
    opened = way.until(ctl="api_opened")
    assert (opened["id"], opened["agent_id"]) == (name, "ws-1")
    return way


def answer(way: Peer, path: str = "/status", token: str | None = TOKEN) -> int:
    """The status of the answer to a request; its body is read too."""
    headers = {"host": "agent"} | ({"authorization": f"Bearer {token}"} if token else {})
    lines = [f"GET {path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
    way.raw("\r\n".join([*lines, "", ""]).encode())
    way.socket.settimeout(PATIENCE)
    response = HTTPResponse(way.socket)
    response.begin()
    response.read()
    return response.status


def test_it_proves_itself_and_its_server_answers_there(start: Start, host: Host, tmp_path: Path) -> None:
    agent = offering(start, host, tmp_path)
    peer = host.accept()
    peer.attach(challenge=True)
    [ready] = [frame for frame in peer.seen if frame.get("signal") == "ready"]
    words = dict(word.split("=", 1) for word in ready["detail"].split() if "=" in word)
    assert words["api"] == "1"
    way = asked(peer, host)
    challenge = api_challenge("one")
    mac, sid = way.seen[0]["mac"], words["sid"]
    assert verify_mac(mac, KEY, challenge=challenge, sid=sid, agent_id="ws-1", epoch=1)
    assert answer(way) == 200
    assert answer(way) == 200, "it is kept for the next request"
    assert answer(asked(peer, host, "two"), token=None) == 401, "a token is needed here too"
    assert agent.http.get("/status").json()["agent_id"]
    peer.close()
    way.socket.settimeout(PATIENCE)
    assert _hung_up(way), "the connections end with the attachment"


def test_connections_are_counted(start: Start, host: Host, tmp_path: Path) -> None:
    offering(start, host, tmp_path)
    peer = host.accept()
    peer.attach()
    with ExitStack() as stack:
        for number in range(MAX_CONNECTIONS):
            stack.callback(asked(peer, host, f"way-{number}").close)
        peer.send({"ctl": "open_api", "id": "too-many"})
        assert peer.until(ctl="nack")["code"] == "too_many_connections"
    assert answer(asked(peer, host, "again")) == 200


def test_one_that_does_not_offer_it_opens_none(start: Start, host: Host, tmp_path: Path) -> None:
    offering(start, host, tmp_path, AGENT_MEDIATION_API="false")
    peer = host.accept()
    peer.attach()
    peer.send({"ctl": "open_api", "id": "one"}, {"ctl": "ping", "n": 7})
    peer.until(ctl="pong", n=7)
    with pytest.raises(TimeoutError):
        host.accept(0.5)


def _hung_up(way: Peer) -> bool:
    try:
        while way.socket.recv(65536):
            continue
    except ConnectionResetError:
        pass
    return True
