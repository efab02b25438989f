"""A host that reads nothing, and one whose lines have no end: a guest leaves both."""

from __future__ import annotations

import asyncio
import socket
import tracemalloc
from collections.abc import AsyncIterator

import pytest

from agent_common.protocol.work import FrameFault, Progress
from agent_runtime.mediation.channel.connection import ChannelLost, FrameConnection

from .moved_time import HandLoop, Hours


@pytest.fixture
async def ends() -> AsyncIterator[tuple[FrameConnection, socket.socket]]:
    ours, theirs = socket.socketpair()
    theirs.setblocking(False)
    link = FrameConnection(*await asyncio.open_connection(sock=ours), Hours(), max_line=1 << 16)
    yield link, theirs
    await link.close()
    theirs.close()


async def test_a_host_that_reads_nothing_for_thirty_seconds_is_left(
    ends: tuple[FrameConnection, socket.socket],
) -> None:
    link, _ = ends
    loop = asyncio.get_running_loop()
    assert isinstance(loop, HandLoop)
    for number in range(100):
        link.send(Progress(request_id="r", seq=number, kind="text", text="x" * 60_000))
    flushing = asyncio.create_task(link.flush())
    for _ in range(20):
        await asyncio.sleep(0)
    loop.leap(29)
    for _ in range(20):
        await asyncio.sleep(0)
    assert (link.break_reason, flushing.done()) == (None, False)
    loop.leap(1.5)
    for _ in range(20):
        await asyncio.sleep(0)
    assert flushing.done()
    assert link.break_reason == "the host does not read"


async def test_a_line_that_is_too_long_is_skipped_and_one_without_end_is_the_end(
    ends: tuple[FrameConnection, socket.socket],
) -> None:
    link, theirs = ends
    loop = asyncio.get_running_loop()
    frames = link.frames()
    sending = asyncio.create_task(loop.sock_sendall(theirs, b"x" * 100_000 + b'\n{"ctl":"ping","n":1}\n'))
    fault = await anext(frames)
    assert isinstance(fault, FrameFault)
    assert fault.code == "line_too_long"
    assert await anext(frames) == {"ctl": "ping", "n": 1}
    await sending
    tracemalloc.start()
    try:
        sending = asyncio.create_task(loop.sock_sendall(theirs, b"x" * (64 << 20)))
        await asyncio.sleep(0)
        before = tracemalloc.get_traced_memory()[0]
        with pytest.raises(ChannelLost):
            await anext(frames)
        assert tracemalloc.get_traced_memory()[0] - before < 2 << 20
    finally:
        tracemalloc.stop()
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)
