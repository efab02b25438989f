"""The output of a runtime that is a process takes a bounded part of the host's disk."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from agent_host.fleet import LaunchRequest, ProcessDriver
from agent_host.fleet.console import MOST_BYTES


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "output"), [("x" * 99 + "\n", 1), ("x", 1), ("x" * 99 + "\n", 2)], ids=["lines", "one line", "errors"]
)
async def test_the_output_of_a_run_is_bounded_while_it_runs(tmp_path: Path, line: str, output: int) -> None:
    program = f"""
import http.server, os, sys, threading
def flood():
    piece = ({line!r} * 70_000)[:65_536].encode()
    for _ in range(200 * 16):
        os.write({output}, piece)
    os.write(2, b"the end of 200 MiB")
class Ready(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers()
    def log_message(self, *_): pass
threading.Thread(target=flood, daemon=True).start()
http.server.HTTPServer(("127.0.0.1", int(os.environ["AGENT_PORT"])), Ready).serve_forever()
"""
    driver = ProcessDriver(60, 5, (sys.executable, "-c", program))
    launch = LaunchRequest("w", driver.allocate_url(), tmp_path / "w", "token", "http://127.0.0.1:1", "mesh-token")
    child = await driver.start(launch)
    most = 0
    try:
        async with asyncio.timeout(120):
            while "the end of 200 MiB" not in await child.console():
                await asyncio.sleep(0.05)
                most = max(most, sum(path.stat().st_size for path in launch.data_dir.glob("runtime.log*")))
    finally:
        await child.stop()
    assert most <= 2 * MOST_BYTES
