"""What a connection may send before it is answered, on a real socket."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable, MutableMapping
from contextlib import asynccontextmanager
from typing import Any

import pytest
from uvicorn import Config, Server

from agent_common.http import BoundedHttp, claim_connection, limited_http_protocol
from agent_common.http.header_limits import MAX_HEAD_BYTES

PATIENCE = 60.0
ASK = b"POST / HTTP/1.1\r\nhost: x\r\n"


class Hasty(limited_http_protocol(1000)):
    stall_timeout = 0.1


class Steady(limited_http_protocol(1000)):
    """For clients that move all the time: this process may itself stand still for a good part of a second."""

    stall_timeout = 1.0


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


async def early(_scope: Any, _receive: Any, send: Any) -> None:
    """Answers whatever comes without reading its body."""
    await send({"type": "http.response.start", "status": 401, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"no"})


async def flood(_scope: Any, _receive: Any, send: Any) -> None:
    """Sends 8 MB as fast as the client reads."""
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"8000000")]})
    for left in range(99, -1, -1):
        await send({"type": "http.response.body", "body": bytes(80_000), "more_body": left > 0})


async def late(_scope: Any, _receive: Any, send: Any) -> None:
    """Takes longer over its answer than any client may over its own part."""
    await asyncio.sleep(5 * Hasty.stall_timeout)
    await early(_scope, _receive, send)


@asynccontextmanager
async def served(kind: type[BoundedHttp], app: Any = app) -> AsyncGenerator[int]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        config = Config(app, http=kind, ws="none", lifespan="off", log_config=None, access_log=False)
        server = Server(config)
        serving = asyncio.create_task(server._serve(sockets=[listening]))  # without its handling of signals
        try:
            yield listening.getsockname()[1]
        finally:
            server.should_exit = True
            await serving


async def answer(pieces: list[bytes], kind: type[BoundedHttp] = BoundedHttp, app: Any = app) -> bytes:
    """All that comes back until the end."""
    async with served(kind, app) as port, asyncio.timeout(PATIENCE):
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
        ([ASK, CLOSE, b"x: " + b"y" * (MAX_HEAD_BYTES - 1000), b"\r\n\r\n"], b"0"),
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


@pytest.mark.parametrize("more", [b"content-length: 9\r\n\r\nhalf", CHUNKED + b"\r\n4\r\nhalf\r\n"])
async def test_a_body_that_stops_half_way_ends_its_connection(more: bytes) -> None:
    assert b"HTTP/1.1 200" not in await answer([ASK, more], Hasty)


async def test_a_body_may_take_long_while_it_moves() -> None:
    async with served(Steady) as port, asyncio.timeout(PATIENCE):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(ASK + CLOSE + b"content-length: 15\r\n\r\n")
        for _ in range(15):
            writer.write(b"z")
            await asyncio.sleep(Steady.stall_timeout / 10)
        assert (await reader.read()).endswith(b"\r\n\r\n15")
        writer.close()


async def test_an_answer_may_take_long() -> None:
    assert (await answer([ASK, CLOSE, b"\r\n"], Hasty, late)).endswith(b"\r\n\r\nno")


@pytest.mark.parametrize("rest", [[b"x"], [b"z" * 3_000_000], [b"z" * 999_999] * 9])
async def test_an_answer_before_the_body_is_the_last_and_is_read(rest: list[bytes]) -> None:
    found = await answer([ASK, b"content-length: 9000000\r\n\r\n", *rest], BoundedHttp, early)
    assert (found[:12], found[-6:]) == (b"HTTP/1.1 401", b"\r\n\r\nno"), found
    assert b"\r\nconnection: close\r\n" in found


async def test_an_early_answer_to_a_whole_request_keeps_the_connection() -> None:
    found = await answer([ASK, b"content-length: 1\r\n\r\nz", ASK, CLOSE, b"\r\n"], BoundedHttp, early)
    assert found.count(b"HTTP/1.1 401") == 2


async def test_an_answer_that_nobody_reads_ends_its_connection() -> None:
    async with served(Hasty, flood) as port, asyncio.timeout(PATIENCE):
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1024)
        writer.write(ASK + b"\r\n")
        assert await reader.readexactly(12) == b"HTTP/1.1 200"
        while len(Hasty.limit) > 0:  # what we have not read stays in buffers, so we are not told
            await asyncio.sleep(0.01)
        with pytest.raises((ConnectionResetError, asyncio.IncompleteReadError)):
            await reader.readexactly(8_000_000)
        writer.close()


async def test_an_answer_may_be_read_slowly() -> None:
    async with served(Steady, flood) as port, asyncio.timeout(PATIENCE):
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1024)
        writer.write(ASK + b"\r\n")
        read = 0
        while read < 8_000_000 and (piece := await reader.read(400_000)):
            read += len(piece)
            await asyncio.sleep(Steady.stall_timeout / 25)
        assert read > 8_000_000
        writer.close()


@pytest.mark.parametrize("pieces", [[b"GET / HTTP/1.1\r\n\r\n" * 100], [ASK, b"a:\r\n" * 300, b"\r\n"]])
async def test_small_requests_and_headers_are_counted(pieces: list[bytes]) -> None:
    found = await answer(pieces, BoundedHttp, late)
    assert found == b"reset" or found.startswith(b"HTTP/1.1 400 ")


async def test_strangers_make_room_and_the_known_stay() -> None:
    async def knows(scope: Any, receive: Any, send: Any) -> None:
        await early(scope, receive, send)
        assert claim_connection(scope)

    async with served(limited_http_protocol(8), knows) as port, asyncio.timeout(PATIENCE):
        known_reader, known = await asyncio.open_connection("127.0.0.1", port)
        known.write(ASK + b"\r\n")
        await known_reader.readuntil(b"\r\n\r\nno")
        strangers = [await asyncio.open_connection("127.0.0.1", port) for _ in range(20)]
        assert [await reader.read() for reader, _ in strangers[:13]] == [b""] * 13  # seven are left
        for _, writer in strangers[:13]:
            writer.close()
        for reader, writer in [*strangers[13:], (known_reader, known)]:
            writer.write(ASK + b"\r\n")
            assert (await reader.readuntil(b"\r\n\r\nno")).startswith(b"HTTP/1.1 401 ")
            writer.close()


class WriteCounter:
    """A transport that counts what is written."""

    def __init__(self, transport: asyncio.Transport, sizes: list[int]) -> None:
        self._transport, self._sizes = transport, sizes

    def write(self, data: bytes) -> None:
        self._sizes.append(len(data))
        self._transport.write(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


async def test_the_head_is_written_with_the_first_piece_of_the_body() -> None:
    sizes: list[int] = []

    class Counted(limited_http_protocol(10)):
        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            counter: Any = WriteCounter(transport, sizes)
            super().connection_made(counter)

    whole = await answer([ASK + b"content-length: 0\r\nconnection: close\r\n\r\n"], Counted)
    assert whole.endswith(b"\r\n\r\n0")
    assert sizes == [len(whole)]


async def test_a_head_does_not_wait_for_a_body_that_comes_later() -> None:
    read = asyncio.Event()

    async def slow(_scope: Any, _receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await read.wait()
        await send({"type": "http.response.body", "body": b"ok"})

    async with served(BoundedHttp, slow) as port, asyncio.timeout(PATIENCE):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(ASK + b"content-length: 0\r\n\r\n")
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200")
        read.set()
        assert await reader.readexactly(2) == b"ok"
        writer.close()
