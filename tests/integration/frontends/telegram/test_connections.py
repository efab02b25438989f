"""Connections to Telegram that are never given back."""

from __future__ import annotations

import asyncio

import pytest
from telegram.error import TimedOut

from agent_testing.telegram import FakeTelegram
from frontends.telegram.api import Request


async def test_a_pool_whose_connections_are_lost_is_replaced(telegram: FakeTelegram) -> None:
    url = f"{telegram.url}/bot{telegram.token}"
    request = Request(connections=1, pool_seconds=0.1)
    lost = asyncio.create_task(request.do_request(f"{url}/getUpdates?timeout=50", "GET", read_timeout=60))
    async with asyncio.timeout(60):
        while not any(call.method == "getUpdates" for call in telegram.journal) and not lost.done():
            await asyncio.sleep(0.01)
        assert not lost.done()
        with pytest.raises(TimedOut, match="Pool timeout"):
            await request.do_request(f"{url}/getMe", "GET")
        status, _ = await request.do_request(f"{url}/getMe", "GET")
    assert status == 200
    assert not lost.done(), "a request in the old pool goes on"
    lost.cancel()
    await asyncio.wait([lost])
    await request.shutdown()
