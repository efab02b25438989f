"""What a connection may send before it is answered, on a real socket."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable, MutableMapping
from contextlib import asynccontextmanager
from typing import Any

import pytest

from agent_runtime.heads import MOST_BYTES, BoundedHttp
from agent_runtime.lean import Config, Server

PATIENCE = 10.0
ASK = b"POST / HTTP/1.1\r\nhost: x\r\n"


class Hasty(BoundedHttp):
    patience = 0.1


async def app(_scope: Any, receive: Callable[[], Awaitable[MutableMapping[str, Any]]], send: Any) -> None:
    """Says how long the body was."""
    length, more = 0, True
    while more:
        message = await receive()
        length, more = length + len(message.get("body", b"")), message.get("more_body", False)
    said = str(length).encode()
    headers = [(b"content-length", str(len(said)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": said})


@asynccontextmanager
async def served(kind: type[BoundedHttp]) -> AsyncGenerator[int]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        config = Config(app, http=kind, ws="none", lifespan="off", log_config=None, access_log=False)
        server = Server(config)
        serving = asyncio.create_task(server._serve(sockets=[listening]))  # without its handling of signals
        try:
            yield listening.getsockname()[1]
        finally:
            server.should_exit = True
            await serving


async def answer(pieces: list[bytes], kind: type[BoundedHttp] = BoundedHttp) -> bytes:
    """All that comes back until the end."""
    async with served(kind) as port, asyncio.timeout(PATIENCE):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            for piece in pieces:
                writer.write(piece)
                await writer.drain()
            return await reader.read()
        except ConnectionResetError:
            return b"reset"
        finally:
            writer.close()


CLOSE = b"connection: close\r\n"
CHUNKED = b"transfer-encoding: chunked\r\n"


@pytest.mark.parametrize(
    ("pieces", "length"),
    [
        ([ASK, CLOSE, b"x: " + b"y" * (MOST_BYTES - 1000), b"\r\n\r\n"], b"0"),
        ([ASK, CLOSE, b"content-length: 3000000\r\n\r\n", b"z" * 3_000_000], b"3000000"),
        ([ASK, CLOSE, CHUNKED, b"\r\n", b"30d40\r\n" + b"z" * 200_000 + b"\r\n", b"0\r\na: b\r\n\r\n"], b"200000"),
        ([ASK, b"content-length: 1\r\n\r\nz", ASK, CLOSE, b"\r\n"], b"0"),
    ],
)
async def test_what_has_an_end_is_answered(pieces: list[bytes], length: bytes) -> None:
    found = await answer(pieces)
    assert (found.startswith(b"HTTP/1.1 200 "), found.endswith(b"\r\n\r\n" + length)) == (True, True), found


@pytest.mark.parametrize(
    "pieces",
    [
        [ASK, b"x: ", *[b"y" * 65_536] * 100],
        [ASK, *[b"a: b\r\n" * 10_000] * 100],
        [b"GET /", *[b"y" * 65_536] * 100],
        [ASK, CHUNKED, b"\r\n", b"1\r\nz\r\n0\r\n", *[b"a: b\r\n" * 10_000] * 100],
    ],
)
async def test_a_head_without_end_is_ended(pieces: list[bytes]) -> None:
    found = await answer(pieces)
    assert found == b"reset" or found.startswith(b"HTTP/1.1 400 "), found[:200]


@pytest.mark.parametrize("pieces", [[], [ASK], [ASK, b"\r\n", b"GET / HTT"]])
async def test_a_head_takes_no_longer_than_it_may(pieces: list[bytes]) -> None:
    found = await answer(pieces, Hasty)
    assert found.count(b"HTTP/1.1 ") == (len(pieces) == 3)
