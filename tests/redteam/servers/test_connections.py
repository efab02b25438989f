"""Connections of strangers that are kept for ever, or that cost far more than their bytes: guest and host serve on."""

from __future__ import annotations

import resource
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from agent_testing import Say, ScriptedProvider
from tests.integration.host.live import Host
from tests.memory_limit import peak_mib

from .guest import SmallGuest

FILES = 256
"""Descriptors that the servers may have; each attack opens more connections than that."""
ATTACKERS = 300
PATIENCE = 60.0


def with_files(command: list[str], files: str) -> list[str]:
    return ["/bin/sh", "-c", f'ulimit {files} && exec "$@"', "files", *command]


class Target:
    """A server under attack, and somebody with a token."""

    def __init__(self, pid: int, url: str, friend: httpx.Client, path: str, egress: int = 0) -> None:
        self.pid, self.url, self.friend, self.path, self.egress = pid, url, friend, path, egress

    def connect(self, port: int | None = None) -> socket.socket:
        address = httpx.URL(self.url)
        return socket.create_connection((address.host, port or address.port or 0), timeout=PATIENCE)

    def serves(self) -> None:
        """Strangers get the probe, and the friend gets more."""
        assert httpx.get(f"{self.url}/healthz", timeout=PATIENCE, trust_env=False).status_code == 200
        assert self.friend.get(self.path, timeout=PATIENCE).status_code == 200


@pytest.fixture(scope="module")
def guest(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    with ScriptedProvider(otherwise=Say("ok")) as provider:
        runtime = SmallGuest(provider, tmp_path_factory.mktemp("guest"))
        runtime.command = with_files(runtime.command, f"-n {FILES}")
        with runtime:
            yield Target(runtime.process.pid, runtime.url, runtime.http, "/status")


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    one = Host(tmp_path_factory.mktemp("host"), MESH_EGRESS_HOSTS="*", MESH_EGRESS_PORT=0)
    one.command = with_files(one.command, f"-n {FILES}")
    with one, one.client(one.token("friend")) as friend:
        egress = one.process.wait_for_output(r"agents go out through \S+:(\d+)")[1]
        yield Target(one.process.pid, one.url, friend, "/v1/models", int(egress))


@pytest.fixture(params=["guest", "host"])
def target(request: pytest.FixtureRequest) -> Target:
    return request.getfixturevalue(request.param)


@pytest.fixture
def attackers() -> Iterator[list[socket.socket]]:
    """Connections that stay open until the test is over."""
    with ExitStack() as stack:
        yield (made := [])
        for one in made:
            stack.callback(one.close)


def answer_owed_a_body(one: socket.socket) -> None:
    """Take the refusal, and go on sending a body that never ends."""
    one.sendall(b"POST /chat HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\n")
    one.recv(4096)
    one.sendall(b"x")


def half_a_head(one: socket.socket) -> None:
    one.sendall(b"GET /healthz HTTP/1.1\r\nhost:")


def nothing(one: socket.socket) -> None:
    pass


@pytest.mark.parametrize("attack", [answer_owed_a_body, half_a_head, nothing])
def test_strangers_keep_nobody_out(target: Target, attackers: list[socket.socket], attack: object) -> None:
    assert callable(attack)
    for _ in range(ATTACKERS):
        attackers.append(target.connect())
        try:
            attack(attackers[-1])
        except OSError:
            continue  # it was shown out already
    target.serves()


def test_known_connections_outlive_a_crowd_of_strangers(guest: Target, attackers: list[socket.socket]) -> None:
    guest.serves()
    with guest.friend.stream("GET", "/events", timeout=PATIENCE) as events:
        lines = events.iter_lines()
        assert events.status_code == 200
        attackers += [guest.connect() for _ in range(ATTACKERS)]
        reply = guest.friend.post("/chat", json={"message": "hello"}, timeout=PATIENCE)
        assert reply.status_code == 200, reply.text
        assert any(line.startswith("data:") for line in lines)


def test_strangers_do_not_take_the_way_out_from_agents(host: Target, attackers: list[socket.socket]) -> None:
    for _ in range(ATTACKERS):
        attackers.append(host.connect(host.egress))
        attackers[-1].sendall(b"CONNECT 127.0.0.1:80 HTTP/1.1\r\n")
    attackers.append(host.connect(host.egress))
    proof = f"Proxy-Authorization: {host.friend.headers['authorization']}"
    attackers[-1].sendall(f"CONNECT 127.0.0.1:80 HTTP/1.1\r\n{proof}\r\n\r\n".encode())
    assert attackers[-1].recv(4096).startswith(b"HTTP/1.1 403 ")  # it was heard: that address is not public
    host.serves()


@pytest.mark.parametrize(
    ("piece", "count"),
    [
        pytest.param(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n" * 7_000, 16, id="pipelined requests"),
        pytest.param(b"GET /healthz HTTP/1.1\r\nhost: x\r\n" + b"a:\r\n" * 16_000, 100, id="tiny headers"),
    ],
)
def test_small_bytes_do_not_become_large_memory(
    target: Target, attackers: list[socket.socket], piece: bytes, count: int
) -> None:
    before = peak_mib(target.pid)
    for _ in range(count):
        attackers.append(target.connect())
        try:
            attackers[-1].sendall(piece)
        except OSError:
            continue
    target.serves()
    assert peak_mib(target.pid) - before < 64


def test_the_soft_limit_of_descriptors_is_raised_at_the_start(tmp_path: Path) -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    one = Host(tmp_path / "host")
    one.command = with_files(one.command, "-S -n 200")
    with ScriptedProvider() as provider, one:
        runtime = SmallGuest(provider, tmp_path / "guest")
        runtime.command = with_files(runtime.command, "-S -n 200")
        with runtime:
            for pid in (runtime.process.pid, one.process.pid):
                assert resource.prlimit(pid, resource.RLIMIT_NOFILE)[0] == min(hard, 65_536)
