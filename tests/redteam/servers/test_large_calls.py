"""Requests and answers of model calls that are as large as they may be: a host with 1 GiB bears all that are under way,
and the share of one agent leaves room for another."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import httpx
import pytest

from tests.e2e.live import eventually
from tests.integration.host.live import CATALOG, said
from tests.memory_limit import peak_mib

from .test_host_input import SmallHost

MIB = 2**20
CHAT = "/v1/chat/completions"
END = b'"],"usage":{"prompt_tokens":7,"completion_tokens":2}}'


class Provider:
    """Answers every request with the same document, or reads none while it is deaf."""

    def __init__(self, listener: socket.socket) -> None:
        self.url = f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
        self.answer, self.deaf = b"{}", False
        self._listener = listener
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError), ExitStack() as kept:
            while True:
                connection, _ = self._listener.accept()
                if self.deaf:
                    kept.enter_context(connection)
                else:
                    threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(self.answer)
        with connection, suppress(OSError):
            while connection.recv(MIB):
                connection.sendall(head + self.answer)


@pytest.fixture
def provider() -> Iterator[Provider]:
    with socket.create_server(("127.0.0.1", 0), backlog=128) as listener:
        yield Provider(listener)
        listener.shutdown(socket.SHUT_RDWR)


@pytest.fixture
def host(provider: Provider, tmp_path: Path) -> Iterator[SmallHost]:
    """One for each test: its peak of memory is looked at."""
    (tmp_path / "models.yaml").write_text(CATALOG.format(url=provider.url))
    with SmallHost(tmp_path / "data", MESH_MODELS=tmp_path / "models.yaml", UPSTREAM_KEY="sk") as host:
        yield host


@pytest.fixture
def other(host: SmallHost) -> str:
    return host.token("good")


@pytest.fixture
def token(host: SmallHost) -> str:
    return host.token("evil")


def send(host: SmallHost, token: str, body: bytes) -> socket.socket:
    """A call whose answer is not read."""
    address = httpx.URL(host.url)
    made = socket.create_connection((address.host, address.port or 0), timeout=60)
    head = f"POST {CHAT} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\ncontent-length: {len(body)}\r\n\r\n"
    made.sendall(head.encode() + body)
    return made


def test_answers_of_very_many_values_are_not_parsed(
    host: SmallHost, provider: Provider, token: str, other: str
) -> None:
    provider.answer = b'{"data":[' + b'{"":0},' * (50 * MIB // 7) + b'"' + END
    with host.client(token) as agent, host.watched(other):
        reply = agent.post(CHAT, json=said("hi"), timeout=60)
    assert reply.status_code == 200
    assert reply.content.endswith(b'"completion_tokens":2,"cost_usd":11.0}}')
    assert host.recent(limit=1)[0]["usage"]["input"] == 7
    assert peak_mib(host.process.pid) < 400


def test_answers_that_are_not_read_have_a_bound(host: SmallHost, provider: Provider, token: str, other: str) -> None:
    provider.answer = b'{"data":["' + b"x" * (50 * MIB) + END
    body = json.dumps(said("hi")).encode()
    with ExitStack() as open_:
        calls = [open_.enter_context(send(host, token, body)) for _ in range(17)]
        statuses = [call.recv(64).split()[1] for call in calls]
        assert statuses.count(b"200") <= 2
        assert set(statuses) == {b"200", b"429"}
        with host.client(other) as agent:
            reply = agent.post(CHAT, json=said("hi"), timeout=60)
        assert reply.status_code == 200, reply.text[:500]
        assert reply.json()["usage"]["cost_usd"] == 11
        assert peak_mib(host.process.pid) < 500
    with host.client(token) as agent:
        eventually(lambda: agent.post(CHAT, json=said("hi"), timeout=60).status_code == 200)  # all is given back


def test_requests_that_no_provider_reads_have_a_bound_over_all_agents(
    host: SmallHost, provider: Provider, token: str, other: str
) -> None:
    provider.deaf = True
    body = json.dumps(said("x" * (31 * MIB))).encode()
    tokens = [token, host.token("evil2"), host.token("evil3")]
    with ExitStack() as open_:

        def calls(token: str) -> None:
            for _ in range(4):
                with suppress(OSError):  # it was refused
                    open_.enter_context(send(host, token, body))

        threads = [threading.Thread(target=calls, args=(token,)) for token in tokens]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        with host.client(other) as agent:
            reply = agent.post(CHAT, json=said("x" * MIB, model="demo"), timeout=60)
        assert reply.status_code == 200, reply.text
        assert peak_mib(host.process.pid) < 800
