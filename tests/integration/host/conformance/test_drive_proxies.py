"""Work is handed in without the proxies that a machine's environment names."""

from __future__ import annotations

import os
import subprocess
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

PROGRAM = """
import asyncio, sys
from agent_conformance.drive import HttpWorkDriver
print(asyncio.run(HttpWorkDriver(sys.argv[1], "token", "w").submit("ping")))
"""


class Face(BaseHTTPRequestHandler):
    """Of a host that takes all work."""

    def do_POST(self) -> None:
        said = b'{"request_id": "r1"}'
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(202)
        self.send_header("content-length", str(len(said)))
        self.end_headers()
        self.wfile.write(said)

    def log_message(self, format: str, *args: object) -> None:
        return


def test_no_proxy_stands_between_tester_and_listener() -> None:
    root = str(Path(__file__).parents[4])
    nobody = "http://127.0.0.1:1"
    env = {**os.environ, "PYTHONPATH": root, "http_proxy": nobody, "HTTP_PROXY": nobody, "no_proxy": ""}
    with HTTPServer(("127.0.0.1", 0), Face) as server:
        Thread(target=server.handle_request, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}"
        ended = subprocess.run(
            [sys.executable, "-c", PROGRAM, url], check=False, env=env, capture_output=True, text=True, timeout=60
        )
    assert ended.stdout.strip() == "r1", ended.stderr
