"""Clients that speak httpx, over a unix socket and over TCP: the same transport, which also takes vsock."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest

from agent_common.net import http_client

MiB = 1024 * 1024


class Server:
    """Answers by path; counts connections."""

    def __init__(self, url: str) -> None:
        self.url, self.connections = url, 0
        self.heads: list[bytes] = []
        self.go_on = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                self.heads.append(head)
                lengths = [line[16:] for line in head.lower().split(b"\r\n") if line.startswith(b"content-length: ")]
                body = await reader.readexactly(int(lengths[0]) if lengths else 0)
                await self.answer(head.split(b" ")[1].decode().removeprefix("/v1"), body, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def answer(self, path: str, body: bytes, writer: asyncio.StreamWriter) -> None:
        head = b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n"
        match path:
            case "/echo":
                writer.write(head + b"content-length: %d\r\n\r\n" % len(body) + body)
            case "/packed":
                packed = gzip.compress(b"unpacked")
                writer.write(head + b"content-encoding: gzip\r\ncontent-length: %d\r\n\r\n" % len(packed) + packed)
            case "/slow":
                writer.write(head + b"transfer-encoding: chunked\r\n\r\n5\r\nfirst\r\n")
                await self.go_on.wait()
                writer.write(b"4\r\nlast\r\n0\r\n\r\n")
            case "/break":
                writer.write(head + b"content-length: 100\r\n\r\nhalf")
                writer.close()
            case _:
                await asyncio.sleep(60)
        await writer.drain()


@pytest.fixture(params=["unix", "tcp"])
async def server(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[Server]:
    it = Server("")
    if request.param == "unix":
        opened = await asyncio.start_unix_server(it.serve, tmp_path / "s")
        it.url = f"http+unix://{quote(str(tmp_path / 's'), safe='')}/v1"
    else:
        opened = await asyncio.start_server(it.serve, "127.0.0.1", 0)
        it.url = f"http://127.0.0.1:{opened.sockets[0].getsockname()[1]}/v1"
    async with opened:
        yield it


@asynccontextmanager
async def client(url: str, **options: float) -> AsyncGenerator[httpx.AsyncClient]:
    made, base = http_client(url, **options)
    made.base_url = base
    async with made:
        yield made


async def test_one_connection_carries_many_requests_of_any_size(server: Server) -> None:
    big = bytes(range(256)) * (8 * MiB // 256)
    async with client(server.url) as http:
        for body in (b"", b"x", big, b"y"):
            reply = await http.post("/echo", content=body)
            assert reply.status_code == 200
            assert reply.content == body
        assert (await http.get("/packed")).text == "unpacked"
    assert server.connections == 1
    assert b"\r\nhost: " in server.heads[0].lower()


async def test_a_body_in_pieces_goes_out_whole(server: Server) -> None:
    async def pieces() -> AsyncGenerator[bytes]:
        yield b"one "
        yield b"two"

    async with client(server.url) as http:
        assert (await http.post("/echo", content=pieces())).text == "one two"
    assert b"transfer-encoding" not in server.heads[0].lower()


async def test_an_answer_comes_as_it_is_sent(server: Server) -> None:
    async with client(server.url) as http, http.stream("GET", "/slow") as reply:
        pieces = reply.aiter_bytes()
        async with asyncio.timeout(5):
            assert await anext(pieces) == b"first"
            server.go_on.set()
            assert [piece async for piece in pieces] == [b"last"]


async def test_faults_are_httpxs_own(server: Server) -> None:
    async with client(server.url, timeout=0.2) as http:
        with pytest.raises(httpx.ReadTimeout, match=r"nothing came for 0\.2 s"):
            await http.get("/never")
        with pytest.raises(httpx.NetworkError, match="in the middle of a reply"):
            await http.get("/break")
        with pytest.raises(httpx.UnsupportedProtocol, match=r"speaks to .* only"):
            await http.get("http://elsewhere.test/")
        assert (await http.post("/echo", content=b"still")).text == "still"


async def test_nobody_there_is_named(tmp_path: Path) -> None:
    async with client(f"http+unix://{quote(str(tmp_path / 'none'), safe='')}") as http:
        with pytest.raises(httpx.NetworkError, match=f"unix:{tmp_path}/none: there is no such socket"):
            await http.get("/")


async def test_the_openai_client_goes_by_it(tmp_path: Path) -> None:
    from openai import AsyncOpenAI

    whole = {
        "id": "c",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "hello"}}],
    }
    chunk = {**whole, "object": "chat.completion.chunk", "choices": [{"index": 0, "delta": {"content": "hello"}}]}

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for kind, body in (
            (b"application/json", json.dumps(whole).encode()),
            (b"text/event-stream", b"data: %s\n\ndata: [DONE]\n\n" % json.dumps(chunk).encode()),
        ):
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            assert b"authorization: bearer secret" in head
            length = next(line[16:] for line in head.split(b"\r\n") if line.startswith(b"content-length: "))
            await reader.readexactly(int(length))
            writer.write(
                b"HTTP/1.1 200 OK\r\ncontent-type: %s\r\ncontent-length: %d\r\n\r\n" % (kind, len(body)) + body
            )
        await writer.drain()
        writer.close()

    async with await asyncio.start_unix_server(serve, tmp_path / "s"):
        http, base = http_client(f"http+unix://{quote(str(tmp_path / 's'), safe='')}/v1", timeout=5)
        model = AsyncOpenAI(base_url=base, api_key="secret", http_client=http, max_retries=0)  # pyright: ignore[reportArgumentType]
        said = await model.chat.completions.create(model="m", messages=[{"role": "user", "content": "hi"}])
        assert said.choices[0].message.content == "hello"
        streamed = await model.chat.completions.create(
            model="m", messages=[{"role": "user", "content": "hi"}], stream=True
        )
        assert [one.choices[0].delta.content async for one in streamed] == ["hello"]
        await http.aclose()
