"""The clock that skips what is waited for skips nothing that is under way."""

from __future__ import annotations

import asyncio
import socket
import time
from pathlib import Path

import pytest

from .swift import run_swiftly


def test_an_hour_takes_a_moment_and_has_its_order() -> None:
    async def hour() -> tuple[list[int], float]:
        began, seen = asyncio.get_running_loop().time(), list[int]()

        async def one(seconds: int) -> None:
            await asyncio.sleep(seconds)
            seen.append(seconds)

        await asyncio.gather(*map(one, (3600, 60, 1)))
        return seen, asyncio.get_running_loop().time() - began

    before = time.monotonic()
    seen, passed = run_swiftly(hour())
    assert seen == [1, 60, 3600]
    assert passed == pytest.approx(3600, abs=1)
    assert time.monotonic() - before < 10


def test_what_was_sent_comes_before_any_deadline(tmp_path: Path) -> None:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(await reader.readexactly(1 << 20))
        await writer.drain()
        writer.close()

    async def talk() -> bytes:
        async with await asyncio.start_unix_server(echo, tmp_path / "s"):
            reader, writer = await asyncio.open_unix_connection(tmp_path / "s")
            writer.write(bytes(1 << 20))
            async with asyncio.timeout(1):
                answer = await reader.readexactly(1 << 20)
            writer.close()
            await writer.wait_closed()
            return answer

    assert run_swiftly(talk()) == bytes(1 << 20)


def test_what_takes_real_time_is_refused() -> None:
    async def listen(opened: socket.socket) -> None:
        opened.setblocking(False)
        await asyncio.get_running_loop().sock_accept(opened)

    with socket.create_server(("127.0.0.1", 0)) as opened, pytest.raises(RuntimeError, match="only unix sockets"):
        run_swiftly(listen(opened))
    with pytest.raises(RuntimeError, match="no threads"):
        run_swiftly(asyncio.to_thread(time.monotonic))
