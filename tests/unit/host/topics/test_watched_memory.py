"""What the host keeps in memory for watchers of many topics, and that they get everything in spite of it."""

from __future__ import annotations

import asyncio
import json
from contextlib import AsyncExitStack, aclosing
from pathlib import Path

from agent_common.clock import SystemClock
from agent_common.protocol import Cause
from agent_host.access import TeamMember
from agent_host.database import BatchWriter, open_database
from agent_host.feeds import Client, FeedMemory
from agent_host.topics import Topics

PATIENCE = 60.0
EVIL = TeamMember("evil", "red", is_operator=False)
ANN = TeamMember("ann", "blue", is_operator=False)
MOST = 100_000
EACH = 12


async def _always() -> bool:
    return True


ALWAYS = Client("ann", _always)


async def _publish(topics: Topics, member: TeamMember, topic: str, size: int) -> None:
    await topics.publish(member, Cause(), topic, None, json.dumps("x" * size))


async def _seqs(
    topics: Topics, member: TeamMember, topic: str, ready: asyncio.Event, go_on: asyncio.Event
) -> list[int]:
    """The seqs of events up to the last one. It reads nothing between `ready` and `go_on`."""
    found: list[int] = []
    async with aclosing(await topics.watch(member.team, topic, 0, ALWAYS)) as pieces:
        async for piece in pieces:
            assert b"events-lost" not in piece
            for event in piece.split(b"\n\n"):
                if b"event: message" in event:
                    found.append(int(event.split(b"\n")[0].removeprefix(b"id: ")))
                    ready.set()
            if found:
                await go_on.wait()
            if found and found[-1] >= EACH:
                return found
    return found


async def test_all_watched_topics_share_one_memory_and_no_watcher_misses_or_repeats_a_message(tmp_path: Path) -> None:
    memory = FeedMemory(MOST)
    async with AsyncExitStack() as stack, asyncio.timeout(PATIENCE):
        database = open_database(f"sqlite:///{tmp_path / 'mesh.db'}")
        stack.callback(database.close)
        writer = BatchWriter(database, "test")
        stack.push_async_callback(writer.close)
        topics = Topics(database, writer, SystemClock(), memory=memory)
        stack.push_async_callback(topics.close)
        fast, slow = asyncio.Event(), asyncio.Event()
        fast.set()
        watchers: list[asyncio.Task[list[int]]] = []
        for member, topic in [(ANN, "news"), *((EVIL, f"t{number}") for number in range(8))]:
            for go_on in (fast, slow):
                ready = asyncio.Event()
                watchers.append(asyncio.create_task(_seqs(topics, member, topic, ready, go_on)))
                if go_on is fast:
                    await _publish(topics, member, topic, 100)
                await ready.wait()
        await _publish(topics, ANN, "news", 5000)
        for _ in range(EACH - 1):
            for number in range(8):
                await _publish(topics, EVIL, f"t{number}", 10_000)
                assert memory.bytes <= MOST
        for _ in range(EACH - 2):
            await _publish(topics, ANN, "news", 100)
        slow.set()
        for watcher in watchers:
            assert await watcher == list(range(1, EACH + 1))
    assert memory.bytes == 0, "what nobody watches takes nothing"


def test_the_oldest_events_of_the_team_with_the_most_go() -> None:
    class Kept:
        def __init__(self, team: str) -> None:
            self.team, self.numbers = team, list[int]()

        def add(self, number: int, size: int) -> None:
            self.numbers.append(number)
            memory.add(self.team, self, number, size)

        def drop(self, number: int) -> None:
            assert self.numbers.pop(0) == number

    memory = FeedMemory(100)
    small, first, second = Kept("small"), Kept("large"), Kept("large")
    small.add(1, 30)
    first.add(1, 20)
    second.add(1, 20)
    first.add(2, 20)
    assert (small.numbers, first.numbers, second.numbers) == ([1], [1, 2], [1])
    second.add(2, 40)
    assert (small.numbers, first.numbers, second.numbers) == ([1], [2], [2])
    second.add(3, 1000)
    assert (small.numbers, first.numbers, second.numbers) == ([1], [], []), "an event that is too large is not kept"
    assert memory.bytes == 30
