"""A command's way to a proxy: by its own loopback, and by nothing else."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from agent_runtime.errors import ToolFailure
from agent_runtime.sandbox import Confinement, SandboxSpec, choose_confinement

from ..conftest import Hold


@pytest.fixture
async def confinement(tmp_path: Path, hold: Hold) -> Confinement:
    held = await hold(tmp_path)
    if held.name != "bubblewrap":
        pytest.fail(held.reason)
    return held


class Proxy:
    """Answers every request with its first line; a CONNECT becomes an echo."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await self._answer(reader, writer)
        finally:
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        line = (await reader.readuntil(b"\r\n\r\n")).decode().splitlines()[0]
        self.seen.append(line)
        if line.startswith("CONNECT"):
            writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
            while piece := await reader.read(65536):
                writer.write(piece)
                await writer.drain()
            writer.write(b" bye")
        else:
            writer.write(b"HTTP/1.0 200 OK\r\n\r\nyou said " + line.encode())


@pytest.fixture
async def proxy(tmp_path: Path) -> AsyncIterator[Proxy]:
    (tmp_path / "closed").mkdir(mode=0o700)
    proxy = Proxy()
    server = await asyncio.start_unix_server(proxy.answer, tmp_path / "closed" / "socket")
    (tmp_path / "closed" / "socket").chmod(0o600)
    async with server:
        yield proxy


@pytest.fixture
def box(tmp_path: Path, confinement: Confinement) -> SandboxSpec:
    work = tmp_path / "work"
    work.mkdir()
    if confinement.uid is not None:
        os.chown(work, confinement.uid, confinement.uid)
    return SandboxSpec(work, (work,), network=tmp_path / "closed" / "socket")


GET = "import urllib.request; print(urllib.request.urlopen('http://example.test/x').read().decode())"
CONNECT = """
import socket, threading
far = socket.create_connection(("127.0.0.1", 3128))
far.sendall(b"CONNECT example.test:443 HTTP/1.1\\r\\n\\r\\n")
print(far.recv(100))
data = b"0123456789" * 300_000
def send():
    far.sendall(data)
    far.shutdown(socket.SHUT_WR)
threading.Thread(target=send).start()
back = b""
while piece := far.recv(65536):
    back += piece
print(back == data + b" bye")
"""


async def test_requests_reach_the_proxy(confinement: Confinement, box: SandboxSpec, proxy: Proxy) -> None:
    done = await confinement.run(("python3", "-c", GET), box, timeout=60)
    assert done.stdout == "you said GET http://example.test/x HTTP/1.1\n", done.stderr


async def test_a_tunnel_carries_both_directions_to_their_ends(
    confinement: Confinement, box: SandboxSpec, proxy: Proxy
) -> None:
    done = await confinement.run(("python3", "-c", CONNECT), box, timeout=60)
    assert done.stdout == "b'HTTP/1.1 200 OK\\r\\n\\r\\n'\nTrue\n", done.stderr
    assert proxy.seen == ["CONNECT example.test:443 HTTP/1.1"]


async def test_connections_run_side_by_side(confinement: Confinement, box: SandboxSpec, proxy: Proxy) -> None:
    code = f'for i in 1 2 3 4 5 6 7 8; do python3 -c "{GET}" & done; wait'
    done = await confinement.run(("bash", "-c", code), box, timeout=60)
    assert done.stdout.count("you said") == 8, done.stderr


async def test_there_is_no_way_around_the_proxy(confinement: Confinement, box: SandboxSpec, proxy: Proxy) -> None:
    command = "for to in 169.254.169.254/80 192.0.2.1/80 127.0.0.1/22; do (exec 3<>/dev/tcp/$to) && echo open; done"
    done = await confinement.run(("bash", "-c", f"{command}; ls /run; id -u; env | grep -ci proxy="), box, timeout=60)
    assert "open" not in done.stdout
    assert done.stdout.split() == ["proxy.sock", "61000", "8"]


async def test_the_relay_is_no_child_of_the_command_and_ends_with_it(
    confinement: Confinement, box: SandboxSpec, proxy: Proxy
) -> None:
    wait = "import os\ntry: os.wait()\nexcept ChildProcessError: print('none')"
    done = await confinement.run(("python3", "-c", wait), box, timeout=5)
    assert (done.stdout, done.timed_out) == ("none\n", False)
    done = await confinement.run(("no-such-program",), box, timeout=60)
    assert (done.exit_code, done.stderr) == (127, "no-such-program: there is no such program\n")


async def test_a_command_without_one_has_no_network_and_other_backends_offer_none(
    confinement: Confinement, box: SandboxSpec, proxy: Proxy, tmp_path: Path
) -> None:
    done = await confinement.run(("bash", "-c", "ls /run; env | grep -i proxy"), replace(box, network=None), timeout=60)
    assert done.stdout == ""
    bare = await choose_confinement("off", tmp_path)
    with pytest.raises(ToolFailure, match="commands have no network under this confinement") as caught:
        await bare.run(("true",), box, timeout=60)
    assert caught.value.kind == "unavailable"
