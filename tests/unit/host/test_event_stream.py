"""A stream of events ends when its reader accepts nothing, and not while it is only silent."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

from starlette.types import Message

from agent_host.http import EventStream

STALL = 0.2


async def events(count: int, pause: float = 0.0) -> AsyncGenerator[bytes]:
    for number in range(count):
        await asyncio.sleep(pause)
        yield b"data: %d\n\n" % number


async def test_a_reader_that_accepts_nothing_is_disconnected() -> None:
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)
        if message.get("body") == b"data: 1\n\n":
            await asyncio.Event().wait()

    began = asyncio.get_running_loop().time()
    async with asyncio.timeout(60):
        await EventStream(events(9), STALL).stream_response(send)
    assert asyncio.get_running_loop().time() - began >= STALL
    assert [message.get("body") for message in sent[1:]] == [b"data: 0\n\n", b"data: 1\n\n"]


async def test_a_silence_between_events_is_no_stall() -> None:
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    async with asyncio.timeout(60):
        await EventStream(events(3, pause=2 * STALL), STALL).stream_response(send)
    assert [message.get("body") for message in sent[1:4]] == [b"data: %d\n\n" % number for number in range(3)]
    assert sent[-1]["more_body"] is False
