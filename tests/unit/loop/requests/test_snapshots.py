"""A host that can put the machine back is asked for a snapshot before each message, and told of it at a rewind."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from agent_runtime.errors import InvalidRequest
from agent_runtime.loop import ChatService, Turn

from ..support import PATIENCE, FakeModel, World, incoming, say


class Host:
    """Numbers its snapshots and looks whether the message is there already."""

    def __init__(self, world: World) -> None:
        self.world, self.taken = world, list[str]()

    async def create_snapshot(self, session_id: str, message_id: str) -> str | None:
        assert await self.world.rows("SELECT 1 FROM chat_messages WHERE id = ?", message_id) == []
        self.taken.append(session_id)
        return f"snap-{len(self.taken)}" if len(self.taken) < 3 else None


async def test_a_snapshot_comes_before_its_message_and_back_with_a_rewind(tmp_path: Path) -> None:
    async with World(tmp_path, FakeModel([say("one"), say("two"), say("three")])) as world:
        host = Host(world)
        hall = replace(world.hallway, snapshot_guard=host)
        chats = ChatService(hall, lambda: world.limits)
        turns: list[Turn] = []
        for text in ("a", "b", "c"):
            turn = await chats.send(incoming(text))
            assert isinstance(turn, Turn)
            await world.ended(turn)
            turns.append(turn)
        assert host.taken == [turns[0].session.id] * 3

        sessions = world.sessions()
        session = turns[0].session.id
        assert (await sessions.rewind("operator", session, turns[2].message_id)).snapshot_id is None
        assert (await sessions.rewind("operator", session, turns[1].message_id)).snapshot_id == "snap-2"
        assert (await sessions.rewind("operator", session, turns[0].message_id)).snapshot_id == "snap-1"


class SlowHost:
    """Takes its time for a snapshot."""

    def __init__(self) -> None:
        self.asked, self.done = asyncio.Event(), asyncio.Event()

    async def create_snapshot(self, session_id: str, message_id: str) -> str | None:
        self.asked.set()
        async with asyncio.timeout(PATIENCE):
            await self.done.wait()
        return None


async def test_a_refused_message_does_not_drop_the_session_that_another_one_begins(tmp_path: Path) -> None:
    async with World(tmp_path) as world, asyncio.TaskGroup() as group:
        host = SlowHost()
        chats = ChatService(replace(world.hallway, snapshot_guard=host), lambda: world.limits)
        first = group.create_task(chats.send(incoming("one", session="new")))
        await host.asked.wait()
        with pytest.raises(InvalidRequest, match="nobody"):
            await chats.send(incoming("two", session="new", agent="nobody"))
        host.asked.clear()
        second = group.create_task(chats.send(incoming("three", session="new")))
        await host.asked.wait()
        host.done.set()
        turns = [await first, await second]
        assert isinstance(turns[0], Turn)
        assert isinstance(turns[1], Turn)
        assert turns[0].session is turns[1].session
        await world.ended(turns[0], turns[1])
