"""The image's health check: it tells whether the process answers, and nothing else."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest

HEALTHZ = Path(__file__).parents[2] / "images/healthz.py"


class Answers(BaseHTTPRequestHandler):
    """Alive, and not ready for work."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.send_response(200 if self.path == "/healthz" else 503)
        self.send_header("Connection", "close")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Silent."""


@contextmanager
def server() -> Generator[int]:
    with HTTPServer(("127.0.0.1", 0), Answers) as served:
        thread = Thread(target=served.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield served.server_address[1]
        finally:
            served.shutdown()
            thread.join()


def check(port: int | str, host: str = "0.0.0.0") -> subprocess.CompletedProcess[str]:  # noqa: S104  as in the image
    env = {**os.environ, "AGENT_HOST": host, "AGENT_PORT": str(port)}
    command = (sys.executable, "-IS", HEALTHZ)
    return subprocess.run(command, check=False, env=env, capture_output=True, text=True, timeout=20)


def test_a_process_that_is_not_ready_is_alive() -> None:
    with server() as port:
        for host in ("0.0.0.0", "127.0.0.1", ""):  # noqa: S104
            said = check(port, host)
            assert (said.returncode, said.stderr) == (0, "")


def test_nobody_there_is_not_alive() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        said = check(taken.getsockname()[1])
    assert said.returncode == 1
    assert said.stderr.startswith("agent-healthz: ")
    assert "Traceback" not in said.stderr


@pytest.mark.slow
def test_a_process_that_says_nothing_is_not_alive_and_is_not_waited_for() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        began = time.monotonic()
        assert check(silent.getsockname()[1]).returncode == 1
        assert time.monotonic() - began < 10


def test_a_port_that_is_none_is_said() -> None:
    assert check("http").stderr.startswith("agent-healthz: invalid literal")
