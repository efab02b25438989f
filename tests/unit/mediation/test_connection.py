"""One connection with a peer that reads slowly, not at all, or writes without end: over a real socket pair."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest

from agent_common.protocol.work import FrameFault, Ping, Pong, Progress
from agent_runtime.mediation.channel.connection import LINES_PER_YIELD, MAX_QUEUED_FRAMES, ChannelLost, FrameConnection
from agent_testing import ManualClock


@asynccontextmanager
async def linked(max_line: int = 1 << 20) -> AsyncGenerator[tuple[FrameConnection, socket.socket]]:
    ours, theirs = socket.socketpair()
    theirs.setblocking(False)
    link = FrameConnection(*await asyncio.open_connection(sock=ours), ManualClock(), max_line=max_line)
    try:
        yield link, theirs
    finally:
        await link.close()
        theirs.close()


async def test_a_host_that_reads_nothing_has_a_bounded_queue() -> None:
    async with linked() as (link, _):
        for number in range(100_000):
            link.send(Pong(n=number))
            await asyncio.sleep(0) if number % 100 == 0 else None
            if link.break_reason is not None:
                break
        assert link.break_reason == "the host reads too slowly"


async def test_progress_is_dropped_first_and_never_breaks_the_connection() -> None:
    async with linked() as (link, theirs):
        text = "x" * 60_000
        for number in range(2000):
            link.send(Progress(request_id="r", seq=number, kind="text", text=text), droppable=True)
        for number in range(MAX_QUEUED_FRAMES // 2):
            link.send(Pong(n=number))
        assert link.break_reason is None
        seen = b""
        async with asyncio.timeout(60):
            while b'"pong","n":127}' not in seen:
                seen = seen[-100:] + await asyncio.get_running_loop().sock_recv(theirs, 1 << 20)


async def test_a_line_that_the_host_does_not_take_is_not_sent_when_it_need_not_be() -> None:
    async with linked(max_line=1024) as (link, theirs):
        link.send(Progress(request_id="r", seq=1, kind="text", text="x" * 2000), droppable=True)
        link.send(Ping(n=1))
        assert b"progress" not in await asyncio.get_running_loop().sock_recv(theirs, 1 << 16)


async def test_a_flood_leaves_others_their_turn() -> None:
    async with linked() as (link, theirs):
        flooding = asyncio.create_task(_flood(theirs, b'{"ctl":"ping","n":1}\n' * 3000, 20))
        beats, frames, most = 0, 0, 0

        async def beat() -> None:
            nonlocal beats
            while True:
                await asyncio.sleep(0)
                beats += 1

        beating = asyncio.create_task(beat())
        since, before = 0, beats
        async for _ in link.frames():
            frames += 1
            since, before = (since + 1, before) if beats == before else (0, beats)
            most = max(most, since)
            if frames == 60_000:
                break
        beating.cancel()
        await flooding
        assert most <= 2 * LINES_PER_YIELD, "frames in a row without anybody else"


async def _flood(theirs: socket.socket, data: bytes, times: int) -> None:
    for _ in range(times):
        await asyncio.get_running_loop().sock_sendall(theirs, data)


async def test_bad_lines_are_counted_by_the_minute() -> None:
    async with linked() as (link, _):
        for _ in range(8):
            link.count_fault(FrameFault("invalid_json", "x"))
        with pytest.raises(ChannelLost, match="bad lines"):
            link.count_fault(FrameFault("invalid_json", "x"))


async def test_what_was_cut_off_is_no_line() -> None:
    async with linked() as (link, theirs):
        theirs.send(b'{"ctl":"ping","n":1}\n{"ctl":"ping","n":2}')
        theirs.shutdown(socket.SHUT_WR)
        assert [frame async for frame in link.frames()] == [{"ctl": "ping", "n": 1}]
