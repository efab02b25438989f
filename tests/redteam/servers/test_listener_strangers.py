"""Whoever reaches the listener without a key writes nothing to the host's disk but a count, and changes no epoch."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from typing import Any

import pytest

from tests.integration.host.live import PATIENCE
from tests.memory_limit import peak_mib

from .attached_guest import NOW, Guest
from .listening_host import ListeningHost

ATTEMPTS = 3000
MOST_ROWS = 4
MOST_LOG_BYTES = 8 << 10
MOST_MIB = 400


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ListeningHost]:
    with ListeningHost(tmp_path_factory.mktemp("mesh"), MESH_EGRESS_HOSTS="*", MESH_EGRESS_PORT=0) as host:
        yield host


def line(**frame: Any) -> bytes:
    return json.dumps(frame).encode() + b"\n"


def ready(name: str) -> bytes:
    return line(signal="ready", agent_id=name, observed_at=NOW, detail="med/1 win=4 max=1048576 sid=stranger1")


def knock(port: int, said: bytes, answer: bytes = b"") -> None:
    """One connection: says that, hears the end or the welcome, and answers it."""
    with socket.create_connection(("127.0.0.1", port), PATIENCE) as connection:
        connection.sendall(said)
        heard = connection.recv(4096)
        if heard and answer:
            connection.sendall(answer)
            connection.recv(4096)


STRANGERS: dict[str, Callable[[int, str], None]] = {
    "unknown-agent": lambda port, _: knock(port, ready("nobody")),
    "known-agent-without-proof": lambda port, name: knock(port, ready(name)),
    "known-agent-with-a-wrong-proof": lambda port, name: knock(
        port, ready(name), line(ctl="attach", sid="stranger1", mac="0" * 64)
    ),
    "no-frame": lambda port, _: knock(port, b"hello\n"),
}


@pytest.mark.parametrize("kind", STRANGERS)
def test_strangers_are_counted_and_not_written_one_by_one(host: ListeningHost, kind: str) -> None:
    port, name = host.port, f"victim-{kind}"
    key, rows = host.enrol(name), host.trail()
    logged = len(host.process.output())
    for _ in range(ATTEMPTS):
        STRANGERS[kind](port, name)
    with Guest(port, name, key):  # the agent itself is let in, with the next epoch
        ready_now = host.operator.get(f"/workspaces/{name}").json()["mediationReady"]
    assert (ready_now["attached"], ready_now["epoch"]) == (True, 1)
    written = host.trail(after=rows[-1]["id"] if rows else 0)
    refused = [row for row in written if row["type"].startswith("alarm.")]
    assert len(refused) <= MOST_ROWS, f"{len(written)} rows"
    assert len(written) < 50
    assert len(host.process.output()) - logged < MOST_LOG_BYTES
    assert peak_mib(host.process.pid) < MOST_MIB


def test_what_strangers_say_before_they_prove_anything_is_bounded(host: ListeningHost) -> None:
    port, name = host.port, "talked-at"
    host.enrol(name)
    before = peak_mib(host.process.pid)
    long = line(ctl="pong", n=1, padding="x" * 60_000) * 60
    connections = [socket.create_connection(("127.0.0.1", port), PATIENCE) for _ in range(200)]
    try:
        for connection in connections:
            connection.sendall(ready(name))
            assert b"welcome" in connection.recv(4096)
            connection.settimeout(0.2)
            try:
                connection.sendall(long)
            except OSError:
                continue  # it was refused, or is not read
        assert host.operator.get("/healthz").status_code == 200
    finally:
        for connection in connections:
            connection.close()
    assert peak_mib(host.process.pid) - before < 150


def test_empty_lines_of_strangers_keep_nobody_waiting(host: ListeningHost) -> None:
    lines = b"\n" * (256 << 10)
    with ExitStack() as stack:
        crowd = [stack.enter_context(socket.create_connection(("127.0.0.1", host.port), PATIENCE)) for _ in range(50)]
        for stranger in crowd:
            stranger.setblocking(False)
        for stranger in crowd * 4:
            with suppress(OSError):  # it is not read, or was shown out
                stranger.send(lines)
        began = time.monotonic()
        assert host.operator.get("/healthz").status_code == 200
    assert time.monotonic() - began < 10


REQUESTS = {
    "no HTTP": ("listens on", b"\0\r\n\r\n"),
    "a websocket": (
        "listens on",
        b"GET /healthz HTTP/1.1\r\nhost: x\r\nupgrade: websocket\r\nconnection: upgrade\r\n\r\n",
    ),
    "half a head": ("go out through", b"CONNECT example.org:443 HTTP/1.1\r\n"),
    "no token": ("go out through", b"CONNECT example.org:443 HTTP/1.1\r\n\r\n"),
    "a wrong token": ("go out through", b"CONNECT example.org:443 HTTP/1.1\r\nproxy-authorization: Bearer x\r\n\r\n"),
}


@pytest.mark.parametrize("kind", REQUESTS)
def test_requests_of_strangers_do_not_fill_the_log(host: ListeningHost, kind: str) -> None:
    where, request = REQUESTS[kind]
    port = int(host.process.wait_for_output(rf"{where} http://127.0.0.1:(\d+)")[1])
    before = len(host.process.output())
    for _ in range(300):
        with socket.create_connection(("127.0.0.1", port), PATIENCE) as stranger:
            stranger.sendall(request)
            stranger.shutdown(socket.SHUT_WR)
            while stranger.recv(4096):
                continue
    assert len(host.process.output()) - before < 2000
