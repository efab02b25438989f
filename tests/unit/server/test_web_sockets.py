"""Connections that become WebSockets: how they count, and what ends them."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from uvicorn import Config, Server
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from agent_common.http import BoundedHttp, claim_connection, limited_http_protocol, limited_web_socket_protocol

PATIENCE = 60.0
UPGRADE = (
    b"GET /hub HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: websocket\r\n"
    b"sec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\nsec-websocket-version: 13\r\n\r\n"
)


async def echo(scope: Any, receive: Any, send: Any) -> None:
    """Echoes over WebSockets, unless they are for `/no`, and never ends an answer over HTTP."""
    await receive()
    if scope["type"] == "http":
        await asyncio.Event().wait()
    if scope["path"] == "/no":
        await send({"type": "websocket.http.response.start", "status": 401, "headers": []})
        await send({"type": "websocket.http.response.body", "body": b"no"})
        return
    assert claim_connection(scope, "ann")
    await send({"type": "websocket.accept"})
    while (message := await receive())["type"] == "websocket.receive":
        await send({"type": "websocket.send", "text": message["text"]})


@asynccontextmanager
async def served(**options: Any) -> AsyncGenerator[tuple[int, type[BoundedHttp]]]:
    http = limited_http_protocol(100)
    http.stall_timeout = 0.1
    kinds = {"http": http, "ws": limited_web_socket_protocol(http.limit)}
    with socket.create_server(("127.0.0.1", 0)) as listening:
        config = Config(echo, lifespan="off", log_config=None, access_log=False, **kinds, **options)
        server = Server(config)
        serving = asyncio.create_task(server._serve(sockets=[listening]))  # without its handling of signals
        try:
            yield listening.getsockname()[1], http
        finally:
            server.force_exit = server.should_exit = True
            await serving


async def test_it_stays_open_counts_once_and_is_its_holders() -> None:
    """It owes no head and no body, however long it is silent."""
    async with served() as (port, http), asyncio.timeout(PATIENCE):
        async with connect(f"ws://127.0.0.1:{port}/hub", proxy=None) as link:
            await asyncio.sleep(5 * http.stall_timeout)
            await link.send("hello")
            assert (await link.recv(), len(http.limit)) == ("hello", 1)
        while len(http.limit):
            await asyncio.sleep(0.01)
        async with connect(f"ws://127.0.0.1:{port}/hub", proxy=None) as link:
            http.limit.disconnect("ann")
            with pytest.raises(ConnectionClosed):
                await link.recv()


async def test_it_is_cut_when_its_other_end_answers_no_ping() -> None:
    async with served(ws_ping_interval=0.1, ws_ping_timeout=0.1) as (port, http), asyncio.timeout(PATIENCE):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(UPGRADE)
        with contextlib.suppress(ConnectionResetError):
            while await reader.read(100):
                pass
        writer.close()
        while len(http.limit):
            await asyncio.sleep(0.01)


async def test_one_that_is_refused_is_no_fault_of_the_server(caplog: pytest.LogCaptureFixture) -> None:
    async with served() as (port, http), asyncio.timeout(PATIENCE):
        with pytest.raises(InvalidStatus) as refused:
            await connect(f"ws://127.0.0.1:{port}/no", proxy=None)
        assert (refused.value.response.status_code, refused.value.response.body) == (401, b"no")
        while len(http.limit):
            await asyncio.sleep(0.01)
    assert [record.message for record in caplog.records if record.levelname == "ERROR"] == []


async def test_none_begins_in_the_middle_of_an_answer() -> None:
    async with served() as (port, _), asyncio.timeout(PATIENCE):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n" + UPGRADE)
        assert (await reader.read(100)).startswith(b"HTTP/1.1 400 ")
        writer.close()
