"""Clients and sockets by URL."""

from __future__ import annotations

import asyncio
from pathlib import Path
from urllib.parse import quote

import pytest

from agent_common.net import bind_tcp_socket, http_client


async def test_http_over_a_unix_socket(tmp_path: Path) -> None:
    asked: list[bytes] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.readuntil(b"\r\n"))
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok")
        await writer.drain()
        writer.close()

    path = tmp_path / "mesh.sock"
    async with await asyncio.start_unix_server(answer, path):
        client, base = http_client(f"http+unix://{quote(str(path), safe='')}/v1/", timeout=5)
        async with client:
            assert (await client.get(f"{base}/models")).text == "ok"
    assert asked == [b"GET /v1/models HTTP/1.1\r\n"]


async def test_http_over_tcp_keeps_the_url() -> None:
    client, base = http_client("http://127.0.0.1:1/v1/")
    await client.aclose()
    assert base == "http://127.0.0.1:1/v1"


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_a_port_is_taken_once(host: str) -> None:
    with bind_tcp_socket(host, 0) as bound:
        bound.listen()
        with pytest.raises(OSError, match="in use"):
            bind_tcp_socket(host, bound.getsockname()[1])
