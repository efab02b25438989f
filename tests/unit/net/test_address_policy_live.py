"""The rules as they are, with nothing allowed: in a network namespace of our own with a public address."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import asyncio, sys
from agent_runtime.errors import ToolFailure
from agent_common.net import WebClient

async def serve(reader, writer):
    connected.append(1)
    writer.close()

connected = []

async def main():
    async with await asyncio.start_server(serve, "0.0.0.0", 8080):
        for host in ("93.184.216.34", "10.1.2.3"):
            try:
                await WebClient().fetch(f"http://{host}:8080/")
            except ToolFailure as failure:
                print(failure.kind, failure.message, flush=True)

asyncio.run(main())
"""


@pytest.mark.skipif(not (shutil.which("unshare") and shutil.which("ip")), reason="needs unshare and ip")
def test_this_machine_is_out_of_reach_under_its_public_address_too() -> None:
    addresses = " && ".join(f"ip addr add {one} dev lo" for one in ("93.184.216.34/32", "10.1.2.3/32"))
    script = f"ip link set lo up && {addresses} && exec {sys.executable} -c '{PROGRAM}'"
    done = subprocess.run(
        ("unshare", "-rn", "sh", "-c", script),
        check=False,
        capture_output=True,
        text=True,
        timeout=30,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])},
    )
    if done.returncode and "Operation not permitted" in done.stderr:
        pytest.skip("no namespaces here")
    assert done.stdout.splitlines() == [
        "denied 93.184.216.34 is this machine itself; only public hosts can be reached",
        "denied 10.1.2.3 is a private network; only public hosts can be reached",
    ], done.stderr
