"""Both ends of a bridge, on real sockets: a host that listens, a guest that dials, peers that talk."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Literal

from agent_testing import FakeBridge

SECONDS = 60.0
TCP = "tcp://127.0.0.1:0"


class Peer:
    """One end of a connection. Every wait has a deadline."""

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        self.sock = sock
        self._loop = asyncio.get_running_loop()

    async def send(self, data: bytes) -> None:
        async with asyncio.timeout(SECONDS):
            await self._loop.sock_sendall(self.sock, data)

    async def send_without_end(self, data: bytes) -> None:
        """Until it fails."""
        while True:
            await self.send(data)

    async def read(self, most: int = 1 << 16) -> bytes:
        async with asyncio.timeout(SECONDS):
            return await self._loop.sock_recv(self.sock, most)

    async def exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            piece = await self.read(size - len(data))
            assert piece, f"ended after {data!r}"
            data += piece
        return data

    async def end(self) -> tuple[bytes, Literal["rst", "fin"]]:
        """All that still comes, and how it ends."""
        data = b""
        try:
            while piece := await self.read():
                data += piece
        except ConnectionResetError:
            return data, "rst"
        return data, "fin"

    async def silent(self) -> bool:
        """Whether nothing is there to read, not even an end, after others had their turn."""
        for _ in range(20):
            await asyncio.sleep(0.001)
        try:
            self.sock.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return True
        return False

    def shut(self) -> None:
        self.sock.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        self.sock.close()

    def reset(self) -> None:
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.sock.close()


class Host:
    """A listener on loopback."""

    def __init__(self, port: int = 0) -> None:
        self._listener = socket.create_server(("127.0.0.1", port), backlog=512)
        self._listener.setblocking(False)
        self._peers: list[Peer] = []
        self.port: int = self._listener.getsockname()[1]
        self.url = f"tcp://127.0.0.1:{self.port}"

    async def accept(self) -> Peer:
        async with asyncio.timeout(SECONDS):
            sock, _ = await asyncio.get_running_loop().sock_accept(self._listener)
        self._peers.append(Peer(sock))
        return self._peers[-1]

    def close(self) -> None:
        self._listener.close()
        for peer in self._peers:
            peer.close()


class Guest:
    """Dials a bridge."""

    def __init__(self) -> None:
        self._peers: list[Peer] = []

    async def dial(self, url: str) -> Peer:
        scheme, _, place = url.partition(":")
        sock = socket.socket(socket.AF_UNIX if scheme == "unix" else socket.AF_INET, socket.SOCK_STREAM)
        peer = Peer(sock)
        self._peers.append(peer)
        host, _, port = place.removeprefix("//").rpartition(":")
        async with asyncio.timeout(SECONDS):
            await asyncio.get_running_loop().sock_connect(sock, place if scheme == "unix" else (host, int(port)))
        return peer

    def close(self) -> None:
        for peer in self._peers:
            peer.close()


async def joined(guest: Guest, host: Host, bridge: FakeBridge) -> tuple[Peer, Peer]:
    """A connection, as the guest and as the host have it."""
    inner = await guest.dial(bridge.url)
    return inner, await host.accept()


@asynccontextmanager
async def ends() -> AsyncGenerator[tuple[Guest, Host]]:
    guest, host = Guest(), Host()
    try:
        yield guest, host
    finally:
        guest.close()
        host.close()


async def wait_until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(SECONDS):
        while not holds():
            await asyncio.sleep(0.001)


async def others_turn(turns: int = 50) -> None:
    """Lets everything run that has no need to wait."""
    for _ in range(turns):
        await asyncio.sleep(0)


@contextlib.contextmanager
def full() -> Generator[str]:
    """A listener that lets nobody in, because its queue is full, and refuses nobody."""
    with socket.socket() as listener, socket.socket() as first, socket.socket() as second:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for filler in (first, second):
            filler.setblocking(False)
            filler.connect_ex(listener.getsockname())
        yield f"tcp://127.0.0.1:{listener.getsockname()[1]}"


def unix(folder: Path) -> str:
    return f"unix:{folder / 'guest.sock'}"
