"""Pieces that are written past the task of a stream: in their order, never twice, never to a client that is slow."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from uvicorn import Config, Server

from agent_common.http import BoundedHttp, Push, never_push, pusher

PATIENCE = 60.0
ASK = b"GET /%d HTTP/1.1\r\nhost: x\r\n\r\n"


class Streams:
    """An app whose streams have begun and wait; `push` of each by its path."""

    def __init__(self) -> None:
        self.pushes: dict[str, Push] = {}
        self.begun, self.end = asyncio.Event(), asyncio.Event()

    async def __call__(self, scope: Any, _receive: Any, send: Any) -> None:
        push = self.pushes[scope["path"]] = pusher(scope)
        assert not push(b"too early")
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"first,", "more_body": True})
        self.begun.set()
        await self.end.wait()
        await send({"type": "http.response.body", "body": b"last", "more_body": True})
        await send({"type": "http.response.body", "body": b""})
        assert not push(b"too late")


@asynccontextmanager
async def served(app: Streams) -> AsyncGenerator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        config = Config(app, http=BoundedHttp, ws="none", lifespan="off", log_config=None, access_log=False)
        server = Server(config)
        serving = asyncio.create_task(server._serve(sockets=[listening]))  # without its handling of signals
        reader, writer = await asyncio.open_connection(*listening.getsockname())
        try:
            async with asyncio.timeout(PATIENCE):
                yield reader, writer
        finally:
            app.end.set()
            writer.close()
            server.should_exit = True
            await serving


async def read_answer(reader: asyncio.StreamReader) -> bytes:
    """The body of a chunked answer, whose chunks are as long as they say."""
    assert b"transfer-encoding: chunked" in await reader.readuntil(b"\r\n\r\n")
    body = b""
    while size := int(await reader.readuntil(b"\r\n"), 16):
        body += await reader.readexactly(size)
        assert await reader.readexactly(2) == b"\r\n"
    assert await reader.readexactly(2) == b"\r\n"
    return body


async def test_pieces_come_in_their_order_between_those_of_the_task() -> None:
    streams = Streams()
    async with served(streams) as (reader, writer):
        writer.write(ASK % 1)
        await streams.begun.wait()
        for number in range(100):
            assert streams.pushes["/1"](b"%d," % number)
        streams.end.set()
        assert await read_answer(reader) == b"first," + b"".join(b"%d," % number for number in range(100)) + b"last"


async def test_a_client_that_does_not_read_is_left_to_the_task_and_loses_nothing() -> None:
    streams, piece, taken = Streams(), b"x" * 50_000, 0
    async with served(streams) as (reader, writer):
        writer.write(ASK % 1)
        await streams.begun.wait()
        while streams.pushes["/1"](piece):
            taken += 1
            assert taken < 2000, "what waits for a client is bounded"
            await asyncio.sleep(0)
        streams.end.set()
        assert await read_answer(reader) == b"first," + taken * piece + b"last"


async def test_a_client_that_has_gone_gets_nothing() -> None:
    streams = Streams()
    async with served(streams) as (_, writer):
        writer.write(ASK % 1)
        await streams.begun.wait()
        writer.transport.abort()
        while streams.pushes["/1"](b"x"):
            await asyncio.sleep(0.001)
        streams.end.set()


async def test_requests_in_a_row_have_each_their_own_answer() -> None:
    streams = Streams()
    async with served(streams) as (reader, writer):
        writer.write(ASK % 1)
        await streams.begun.wait()
        writer.write(ASK % 2)
        await asyncio.sleep(0.05)
        assert streams.pushes["/1"](b"of the first,")
        streams.end.set()
        assert await read_answer(reader) == b"first,of the first,last"
        assert await read_answer(reader) == b"first,last"


def test_without_a_connection_of_ours_nothing_is_pushed() -> None:
    assert pusher({"type": "http", "state": {}}) is never_push
    assert not never_push(b"x")
