"""What agents of a team share: the blackboard beside a bare handler, changes to watchers, messages to subscribers."""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Self, cast
from urllib.parse import urlsplit

from agent_testing import LiveProcess

from .client import Client, Exchange
from .load import Samples
from .targets import Live

WATCHERS, SUBSCRIBERS = 1000, 100
_TOKEN = "team"
_PATIENCE = 60.0
_WARM, _CALLS, _CHANGES = 20, 200, 20
_VALUE = {"beds": 4, "note": "lorem ipsum dolor sit amet " * 8}
Operation = Callable[[Client, int], Coroutine[None, None, Exchange]]


async def sharing(_live: Live, _provider: str, watchers: int = WATCHERS, subscribers: int = SUBSCRIBERS) -> Samples:
    """Reads and writes of host and bare handler, in turns; then changes and messages one by one, each with all of its
    readers attached."""
    async with _host() as url, _bare() as bare_url:
        host, bare = await Client.connect(url, token=_TOKEN), await Client.connect(bare_url)
        samples = await _beside(host, bare)
        watched = "/blackboard/watch?prefix=news/"
        samples["watch"] = await _spread(url, watchers, watched, _change, host)
        samples["bare watch"] = await _spread(bare_url, watchers, watched, _change, bare)
        samples["published"] = await _spread(url, subscribers, "/topics/news", _message, host, every=False)
        for client in (host, bare):
            client.close()
    return samples


async def _beside(host: Client, bare: Client) -> Samples:
    samples: Samples = {}
    for what, operation in (("write", _write), ("read", _read)):
        for client in (host, bare):
            for number in range(_WARM):
                await operation(client, number)
        taken: Samples = {"host": [], "bare": []}
        for number in range(_CALLS):
            for name, client in (("host", host), ("bare", bare))[:: -1 if number % 2 else 1]:
                taken[name].append((await operation(client, number)).wall * 1000)
        ratio = sorted(taken["host"])[_CALLS // 2] / sorted(taken["bare"])[_CALLS // 2]
        samples |= {what: taken["host"], f"bare {what}": taken["bare"], f"{what} ratio": [ratio]}
    return samples


async def _write(client: Client, number: int) -> Exchange:
    return _checked(await client.put(f"/blackboard/plans/{number % 50}", {"value": {**_VALUE, "number": number}}))


async def _read(client: Client, number: int) -> Exchange:
    return _checked(await client.get(f"/blackboard/plans/{number % _WARM}"))


async def _change(client: Client, number: int) -> Exchange:
    return _checked(await client.put(f"/blackboard/news/{number}", {"value": f"mark-{number}-"}))


async def _message(client: Client, number: int) -> Exchange:
    return _checked(await client.post("/topics/news", {"data": f"mark-{number}-"}))


def _checked(reply: Exchange) -> Exchange:
    if reply.status not in (200, 201):
        raise RuntimeError(f"answered {reply.status}: {reply.body[:500]!r}")
    return reply


async def _spread(
    url: str, readers: int, path: str, publish: Operation, client: Client, *, every: bool = True
) -> list[float]:
    """Milliseconds from the sending of a change to its arrival at every reader, or only at the last of them."""
    open_streams = [await Reader.connect(url, path) for _ in range(readers)]
    samples: list[float] = []
    for number in range(-_WARM, _CHANGES):
        mark = f"mark-{number}-".encode()
        arrivals = [reader.expect(mark) for reader in open_streams]
        began = time.perf_counter()
        await publish(client, number)
        async with asyncio.timeout(_PATIENCE):
            took = sorted([(await arrival - began) * 1000 for arrival in arrivals])
        if number >= 0:
            samples += took if every else took[-1:]
    for reader in open_streams:
        reader.close()
    return samples


class Reader(asyncio.Protocol):
    """One stream of server-sent events, of which only marks are read, so that the client is not what is measured."""

    def __init__(self) -> None:
        self._tail = b""
        self._mark = b"\r\n\r\n"
        self._arrival: asyncio.Future[float] = asyncio.get_running_loop().create_future()

    @classmethod
    async def connect(cls, url: str, path: str) -> Self:
        """Open the stream. Returns when the host has sent its head."""
        parts = urlsplit(url)
        loop = asyncio.get_running_loop()
        _, reader = await loop.create_connection(cls, parts.hostname or "", parts.port or 80)
        reader._transport.write(
            f"GET {path} HTTP/1.1\r\nhost: {parts.netloc}\r\nauthorization: Bearer {_TOKEN}\r\n"
            "accept: text/event-stream\r\n\r\n".encode()
        )
        async with asyncio.timeout(_PATIENCE):
            await reader._arrival
        if not reader._head.startswith(b"HTTP/1.1 200"):
            raise RuntimeError(f"{path}: {reader._head[:200]!r}")
        return reader

    def expect(self, mark: bytes) -> asyncio.Future[float]:
        """Return a future of the time at which the mark comes."""
        self._mark, self._tail = mark, b""
        self._arrival = asyncio.get_running_loop().create_future()
        return self._arrival

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        text = self._tail + data
        if not self._arrival.done() and self._mark in text:
            self._head = text
            self._arrival.set_result(time.perf_counter())
        self._tail = text[-len(self._mark) :]

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._arrival.done():
            self._arrival.cancel()

    def close(self) -> None:
        self._transport.close()


@asynccontextmanager
async def _host() -> AsyncGenerator[str]:
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        env = {
            "MESH_DATA_DIR": str(Path(folder) / "mesh"),
            "MESH_PORT": "0",
            "MESH_LISTENER_URL": "off",
            "MESH_ADMIN_TOKEN": _TOKEN,
        }
        with LiveProcess([sys.executable, "-m", "agent_host", "up"], env, timeout=_PATIENCE) as host:
            yield (await asyncio.to_thread(host.wait_for_output, r"agent-host listens on (\S+)"))[1]


@asynccontextmanager
async def _bare() -> AsyncGenerator[str]:
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        command = [sys.executable, "-m", "tests.bench.team_floor", str(Path(folder) / "bare.db")]
        with LiveProcess(command, timeout=_PATIENCE) as bare:
            yield (await asyncio.to_thread(bare.wait_for_output, r"^http://\S+$"))[0]
