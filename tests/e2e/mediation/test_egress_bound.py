"""`max_egress_bytes`: what a request's tools send out is counted, and not one byte more than the bound leaves."""

from __future__ import annotations

import json
import socket
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_testing import Call, Hang, Say, ScriptedProvider
from tests.e2e.conftest import Start
from tests.e2e.live import Runtime

from .host import Host, Peer, request

pytestmark = pytest.mark.slow

SITE = "93.184.216.34"
BOUND = 50_000
DEMO = Path(__file__).parents[2] / "integration" / "connectors" / "demo_server.py"
POST = f"python3 -c \"import urllib.request as r; r.urlopen('http://{SITE}/', data=b'x' * %d, timeout=5)\""
NAMED = {"permission": "shell.net", "pattern": SITE, "action": "allow"}


class Proxy:
    """A forward proxy that counts what it is sent after CONNECT, and answers each request with a word."""

    def __init__(self) -> None:
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listening.getsockname()[1]}"
        self.received = 0
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                connection = self.listening.accept()[0]
            except OSError:
                return
            threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        with connection:
            head = b""
            while b"\r\n\r\n" not in head:
                head += connection.recv(65536)
            connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
            body, length = b"", 0
            while data := connection.recv(65536):
                self.received += len(data)
                body += data
                if b"\r\n\r\n" in body:
                    start, _, rest = body.partition(b"\r\n\r\n")
                    lengths = [line.split(b":")[1] for line in start.lower().splitlines() if b"content-length" in line]
                    length = int(lengths[0]) if lengths else 0
                    if len(rest) >= length:
                        break
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 5\r\n\r\nhello")


@pytest.fixture
def proxy() -> Iterator[Proxy]:
    proxy = Proxy()
    with proxy.listening:
        yield proxy


@pytest.fixture
def agent(start: Start, host: Host, proxy: Proxy, tmp_path: Path) -> Runtime:
    """Its commands may reach the site."""
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "permissions.yaml").write_text(json.dumps({"rules": [NAMED]}))
    return start(AGENT_MEDIATION_URL=host.url, AGENT_EGRESS_URL=proxy.url)


@pytest.fixture
def peer(agent: Runtime, host: Host) -> Peer:
    del agent
    peer = host.accept()
    peer.attach()
    return peer


def egress(peer: Peer, request_id: str) -> int | None:
    """As the last progress of the request says."""
    told = [one for one in peer.seen if one.get("ctl") == "progress" and one["request_id"] == request_id]
    return told[-1]["usage"].get("egress_bytes")


def test_what_is_within_the_bound_goes_out_and_is_counted(peer: Peer, proxy: Proxy, provider: ScriptedProvider) -> None:
    fetch, post = Call("web_fetch", {"url": f"http://{SITE}/a"}), Call("bash", {"command": POST % 1000})
    provider.script.replace([fetch, post, Say("done")])
    peer.send(request("r", bounds={"max_egress_bytes": BOUND}))
    result = peer.result("r")
    assert (result["status"], result["content"]) == ("completed", "done"), result
    assert proxy.received > 1000
    assert egress(peer, "r") == proxy.received


def test_no_byte_beyond_the_bound_leaves(peer: Peer, proxy: Proxy, provider: ScriptedProvider) -> None:
    provider.script.replace([Call("bash", {"command": POST % 1_000_000}), Say("never asked")])
    peer.send(request("r", bounds={"max_egress_bytes": BOUND}))
    result = peer.result("r")
    assert (result["status"], result["error"].split(":")[0]) == ("yielded", "budget_exhausted"), result
    assert "egress" in result["error"]
    assert proxy.received <= BOUND
    assert (egress(peer, "r") or 0) <= BOUND


def test_an_agent_that_is_called_uses_the_same_bound(peer: Peer, proxy: Proxy, provider: ScriptedProvider) -> None:
    errand = Call("task", {"subagent_type": "default", "prompt": "send it"})
    provider.script.replace([errand, *[Call("bash", {"command": POST % 20_000})] * 4, Say("never asked")])
    peer.send(request("r", bounds={"max_egress_bytes": BOUND}))
    result = peer.result("r")
    assert (result["status"], result["error"].split(":")[0]) == ("yielded", "budget_exhausted"), result
    assert 40_000 < proxy.received <= BOUND
    assert egress(peer, "r") == proxy.received
    assert len(provider.completions) == 4, "one for the errand, three of the agent that was called"


def test_none_at_all_may_leave(peer: Peer, proxy: Proxy, provider: ScriptedProvider) -> None:
    provider.script.replace([Say("nothing was needed")])
    peer.send(request("quiet", bounds={"max_egress_bytes": 0}))
    assert peer.result("quiet")["status"] == "completed"
    provider.script.replace([Call("web_fetch", {"url": f"http://{SITE}/secret"}), Say("never asked")])
    peer.send(request("loud", bounds={"max_egress_bytes": 0}))
    assert peer.result("loud")["status"] == "yielded"
    assert proxy.received == 0


def test_what_was_sent_counts_over_a_restart(agent: Runtime, peer: Peer, host: Host, proxy: Proxy) -> None:
    post = Call("bash", {"command": POST % 30_000})
    agent.provider.script.replace([post, Hang(), post, Say("never asked")])
    peer.send(request("r", bounds={"max_egress_bytes": BOUND}))
    agent.provider.wait_for(2)
    before = proxy.received
    agent.process.kill9()
    agent.provider.script.replace([post, Say("never asked")])
    agent.start()
    peer = host.accept()
    peer.attach({"r": "continue"}, epoch=2)
    result = peer.result("r")
    assert before > 30_000
    assert (result["status"], result["error"].split(":")[0]) == ("yielded", "budget_exhausted"), result
    assert proxy.received <= BOUND


def test_a_server_that_cannot_be_counted_is_denied(start: Start, host: Host, tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "permissions.yaml").write_text('rules:\n  - {permission: "mcp:*:*", action: allow}\n')
    demo = {"command": sys.executable, "args": [str(DEMO), "stdio"], "read": [str(DEMO.parent)]}
    servers = {"quiet": demo, "talks": {**demo, "network": [SITE]}}
    (folder / "mcp.json").write_text(json.dumps({"mcpServers": servers}))
    agent = start(AGENT_MEDIATION_URL=host.url)
    agent.meets_its_servers()
    peer = host.accept()
    peer.attach()
    for name, bounds, called in (
        ("quiet", {"max_egress_bytes": BOUND}, True),
        ("talks", {"max_egress_bytes": BOUND}, False),
        ("talks", None, True),
    ):
        agent.provider.script.replace([Call(f"{name}_echo", {"text": "hi"}), Say("done")])
        peer.send(request(f"{name}-{called}", bounds=bounds))
        assert peer.result(f"{name}-{called}")["status"] == "completed"
        answer = agent.provider.completions[-1].messages[-1]["content"]
        assert ("cannot be counted" not in answer) is called, answer
        assert ('"type":"output"' in answer.replace(" ", "")) is called, answer


def test_an_agent_whose_commands_are_not_confined_cannot_count_them(start: Start, host: Host) -> None:
    start(AGENT_MEDIATION_URL=host.url, AGENT_CONFINEMENT="off")
    peer = host.accept()
    peer.attach()
    peer.send(request("r", bounds={"max_egress_bytes": 10}))
    result = peer.result("r")
    assert result["status"] == "denied"
    assert result["error"].startswith("unsupported_bound:max_egress_bytes: ")
