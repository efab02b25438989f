"""Events of a hostile MCP server that cost far more than their bytes: the guest refuses them unparsed and serves on."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Generator, Iterator
from contextlib import ExitStack, contextmanager, suppress

import pytest

from agent_testing import Say, ScriptedProvider
from tests.e2e.live import eventually

from .guest import SmallGuest

MIB = 2**20
COSTLY = b'{"jsonrpc":"2.0","id":0,"result":{"tools":[' + b'{"":0},' * (3 * MIB // 7) + b"0]}}"
"""Three MiB that become half a gigabyte of objects."""
EVENTS = {
    "an event": ("text/event-stream", b"data: " + COSTLY + b"\n\n"),
    "lines that end in CR": ("text/event-stream", b"data: " + COSTLY + b"\r\r"),
    "an event without end": ("text/event-stream", b"data: " + COSTLY + b"\r"),
    "behind a comment": ("text/event-stream", b': "\nid: "\ndata: ' + COSTLY + b"\n\n"),
    "in many lines": ("text/event-stream", b"data: " + COSTLY.replace(b",{", b",\ndata:{", 1000) + b"\n\n"),
    "in another charset": ("text/event-stream; charset=utf-7", b"data: " + COSTLY.replace(b"{", b"+AHs-")[: 3 * MIB]),
    "one document": ("application/json", COSTLY),
}


@contextmanager
def hostile(kind: str, body: bytes) -> Generator[str]:
    """The address of a server that answers every request with that."""
    head = f"HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\nconnection: close\r\n\r\n".encode()
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            with suppress(OSError):
                while True:
                    connection, _ = listener.accept()
                    with connection, suppress(OSError):
                        connection.recv(MIB)
                        connection.sendall(head + body)
                        connection.shutdown(socket.SHUT_WR)
                        while connection.recv(MIB):
                            continue

        threading.Thread(target=serve, daemon=True).start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"
        listener.shutdown(socket.SHUT_RDWR)


@pytest.fixture(scope="module")
def guest(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SmallGuest]:
    folder = tmp_path_factory.mktemp("guest")
    with ExitStack() as stack:
        urls = {kind.replace(" ", "-"): stack.enter_context(hostile(*answer)) for kind, answer in EVENTS.items()}
        servers = {"mcpServers": {name: {"url": url} for name, url in urls.items()}}
        (folder / "mcp.json").write_text(json.dumps(servers))
        provider = stack.enter_context(ScriptedProvider(otherwise=Say("ok")))
        yield stack.enter_context(SmallGuest(provider, folder))


def refusals(guest: SmallGuest) -> dict[str, str] | None:
    """What is told of the servers in EVENTS, once something is told of all of them."""
    servers = guest.http.get("/capabilities").json()["mcp_servers"]
    errors = {server["name"].replace("-", " "): server["error"] for server in servers if server["error"]}
    return errors if errors.keys() >= EVENTS.keys() else None


def test_costly_events_of_mcp_servers_are_refused(guest: SmallGuest) -> None:
    with guest.watched(1000):
        assert guest.chat("hello").status_code == 200
        errors = eventually(lambda: refusals(guest))
    for kind in EVENTS.keys() - {"in another charset"}:
        assert "more than 200000 values" in errors[kind], errors
    assert guest.peak_mib < 256
