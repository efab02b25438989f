"""Raw bytes to the way out of a host: what follows a request that was allowed goes nowhere.

The way out leads to public addresses of others only. So host, agent and the server behind it are in a network of their
own, where a public address leads back here, and is not the one that connections come from."""

from __future__ import annotations

import shutil
import socket
import subprocess
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from tests.integration.host.live import PATIENCE, Host
from tests.redteam.arena import unavailable
from tests.redteam.kernel import NEWNET, loopback, unshare

PUBLIC = "93.184.216.34"
ROUTE = ("ip", "route", "add", "local", f"{PUBLIC}/32", "dev", "lo", "src", "127.0.0.1")
EVIL = "http://evil.example"
AFTER = {
    "a request": f"GET {EVIL}/ HTTP/1.1\r\nhost: evil.example\r\n\r\n".encode(),
    "a request to the same server": b"GET /other HTTP/1.1\r\nhost: evil.example\r\n\r\n",
    "a tunnel": b"CONNECT evil.example:443 HTTP/1.1\r\nhost: evil.example\r\n\r\n",
    "bytes": b"\0\r\n" * 50_000,
}


class Origin:
    """A server that reads until the other side has said all, and answers then."""

    def __init__(self) -> None:
        self.listener = socket.create_server((PUBLIC, 0))
        self.port = self.listener.getsockname()[1]
        self.heard = b""
        self.begun = threading.Event()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self._thread.join(PATIENCE)

    def _serve(self) -> None:
        try:
            connection, _ = self.listener.accept()
        except OSError:
            return  # nobody came
        with connection:
            connection.settimeout(PATIENCE)
            while data := connection.recv(1 << 16):
                self.heard += data
                self.begun.set()
            connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\nconnection: close\r\n\r\nhello")


def in_a_network_of_its_own(act: Callable[[], None]) -> None:
    """Run in a thread that has left this machine's network. The processes that it starts are where it is."""
    if missing := unavailable() or (shutil.which(ROUTE[0]) is None and "there is no program ip"):
        pytest.skip(str(missing))

    def run() -> None:
        unshare(NEWNET)
        loopback()
        subprocess.run(ROUTE, check=True)
        act()

    with ThreadPoolExecutor(1) as pool:
        pool.submit(run).result()


@pytest.mark.parametrize("body", [b"", b"four"], ids=["no-body", "body"])
def test_what_follows_a_request_goes_nowhere(tmp_path: Path, body: bytes) -> None:
    def act() -> None:
        with Host(tmp_path, MESH_EGRESS_HOSTS=PUBLIC, MESH_EGRESS_PORT=0) as host, ExitStack() as stack:
            port = int(host.process.wait_for_output(r"agents go out through \S+:(\d+)")[1])
            proof = f"proxy-authorization: Bearer {host.token('writer')}\r\ncontent-length: {len(body)}\r\n\r\n"
            for late in (False, True):
                for name, more in AFTER.items():
                    origin = stack.enter_context(closing(Origin()))
                    head = f"POST http://{PUBLIC}:{origin.port}/it HTTP/1.1\r\n{proof}".encode()
                    with socket.create_connection(("127.0.0.1", port), PATIENCE) as agent:
                        agent.sendall(head + body + (b"" if late else more))
                        if late:
                            assert origin.begun.wait(PATIENCE)
                            agent.sendall(more)
                        agent.shutdown(socket.SHUT_WR)
                        with agent.makefile("rb") as answer:
                            assert answer.read().endswith(b"hello"), name
                    told, _, followed = origin.heard.partition(b"\r\n\r\n")
                    assert told.startswith(b"POST /it HTTP/1.1\r\n"), name
                    assert followed == body, name

    in_a_network_of_its_own(act)
