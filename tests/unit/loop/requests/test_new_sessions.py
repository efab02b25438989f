"""Messages that begin the same session at the same time."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from agent_runtime.errors import InvalidRequest
from agent_runtime.loop import ChatService, Turn

from ..support import PATIENCE, World, incoming


class SlowCheck:
    """Takes its time for the size of a message."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.done = asyncio.Event()

    async def require(self, turn: Turn) -> None:
        self.asked.set()
        async with asyncio.timeout(PATIENCE):
            await self.done.wait()


async def test_a_refused_message_does_not_drop_the_session_that_another_one_begins(tmp_path: Path) -> None:
    async with World(tmp_path) as world, asyncio.TaskGroup() as group:
        check = SlowCheck()
        chats = ChatService(replace(world.hallway, require_fit=check.require), lambda: world.limits)
        first = group.create_task(chats.send(incoming("one", session="new")))
        await check.asked.wait()
        with pytest.raises(InvalidRequest, match="nobody"):
            await chats.send(incoming("two", session="new", agent="nobody"))
        check.asked.clear()
        second = group.create_task(chats.send(incoming("three", session="new")))
        await check.asked.wait()
        check.done.set()
        turns = [await first, await second]
        assert isinstance(turns[0], Turn)
        assert isinstance(turns[1], Turn)
        assert turns[0].session is turns[1].session
        await world.ended(turns[0], turns[1])
