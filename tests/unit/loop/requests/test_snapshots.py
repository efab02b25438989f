"""A host that can put the machine back is asked for a snapshot before each message, and told of it at a rewind."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from agent_runtime.loop import ChatService, Turn

from ..support import FakeModel, World, incoming, say


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
