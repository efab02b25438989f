"""The stub of a host, without an agent that keeps the protocol."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from agent_testing.channel import StubListener, StubSession

from .ends import SECONDS, others_turn, wait_until


async def test_when_it_ends_nobody_comes_back_meanwhile() -> None:
    """An agent dials again as soon as its connection has ended, and others may still be let go then."""
    came_back = asyncio.Event()

    class Slow(StubSession):
        async def run(self) -> None:
            try:
                await super().run()
            finally:
                await came_back.wait()

    listener = StubListener("tcp://127.0.0.1:0", session_type=Slow)
    async with asyncio.timeout(SECONDS):
        await listener.__aenter__()
        port = int(listener.url.rpartition(":")[2])
        _, first = await asyncio.open_connection("127.0.0.1", port)
        await wait_until(lambda: bool(listener.sessions))
        ending = asyncio.create_task(listener.__aexit__(None, None, None))
        await others_turn()
        with suppress(ConnectionError):
            reader, again = await asyncio.open_connection("127.0.0.1", port)
            await others_turn()
            came_back.set()
            await ending
            assert await reader.read() == b""
            again.close()
        came_back.set()
        await ending
        first.close()
