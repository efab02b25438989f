"""Topics themselves: their bounds, and publishers that race on SQLite and on PostgreSQL."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Generator
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from pathlib import Path

import pytest

from agent_common.clock import SystemClock
from agent_common.protocol import Cause
from agent_host.access import TeamMember
from agent_host.database import BatchWriter, open_database
from agent_host.errors import Conflict, NotFound
from agent_host.feeds import Client
from agent_host.topics import Topics
from agent_host.topics.messages import LIMITS, TopicLimits, TopicsFull
from tests.unit.host.postgresql import new_database, postgresql

PATIENCE = 60.0
ANN = TeamMember("ann", "red", is_operator=False)


@pytest.fixture(scope="module")
def server() -> Generator[str]:
    with postgresql() as url:
        yield url


@asynccontextmanager
async def opened(url: str, limits: TopicLimits = LIMITS) -> AsyncGenerator[Topics]:
    async with AsyncExitStack() as stack:
        database = open_database(url)
        stack.callback(database.close)
        writer = BatchWriter(database, "test")
        stack.push_async_callback(writer.close)
        topics = Topics(database, writer, SystemClock(), limits)
        stack.push_async_callback(topics.close)
        yield topics


async def put(topics: Topics, topic: str, data: object, message_id: str | None = None, by: TeamMember = ANN) -> int:
    published, _ = await topics.publish(by, Cause(), topic, message_id, json.dumps(data))
    return published.seq


async def seqs(topics: Topics, topic: str) -> list[int]:
    return [row.seq for row in (await topics.messages("red", topic, 0, 1000)).rows]


async def _always() -> bool:
    return True


ALWAYS = Client("ann", _always)


async def streamed(topics: Topics, topic: str, count: int) -> list[int]:
    """The seqs of events, from the first on."""
    found: list[int] = []
    async with aclosing(await topics.watch("red", topic, 0, ALWAYS)) as pieces:
        async for piece in pieces:
            events = [event for event in piece.split(b"\n\n") if b"event: message" in event]
            found += [int(event.split(b"\n")[0].removeprefix(b"id: ")) for event in events]
            if len(found) >= count:
                return found
    return found


async def test_a_topic_keeps_the_newest_messages_and_a_team_so_many_topics(tmp_path: Path) -> None:
    async with opened(f"sqlite:///{tmp_path / 'mesh.db'}", TopicLimits(topics=2, messages=3)) as topics:
        for number in range(5):
            assert await put(topics, "a", number, str(number)) == number + 1
        assert await seqs(topics, "a") == [3, 4, 5]
        assert await put(topics, "a", 4, "4") == 5
        assert await put(topics, "a", 0, "0") == 6, "what is no longer kept is not known"
        assert await put(topics, "b", 1) == 1
        with pytest.raises(TopicsFull):
            await put(topics, "c", 1)
        await topics.delete("red", "b")
        assert await put(topics, "c", 1) == 1
        with pytest.raises(TopicsFull):
            await put(topics, "b", 1)
        async with aclosing(await topics.watch("red", "a", 1, ALWAYS)) as pieces:
            assert await anext(pieces) == b": watching\n"
            assert b"event: events-lost" in await anext(pieces)


async def test_a_stream_misses_nothing_since_it_was_opened(tmp_path: Path) -> None:
    async with opened(f"sqlite:///{tmp_path / 'mesh.db'}") as topics, asyncio.timeout(PATIENCE):
        await put(topics, "a", "before")
        async with aclosing(await topics.watch("red", "a", None, ALWAYS)) as pieces:
            await put(topics, "a", "behind")
            assert b"before" not in await _piece_with(pieces, b"behind")


async def test_the_same_message_may_have_its_keys_in_another_order(tmp_path: Path) -> None:
    async with opened(f"sqlite:///{tmp_path / 'mesh.db'}") as topics:
        assert await put(topics, "a", {"a": 1, "b": [{"c": 1, "d": 2}]}, "x") == 1
        assert await put(topics, "a", {"b": [{"d": 2, "c": 1}], "a": 1}, "x") == 1
        for other in ({"a": True, "b": [{"c": 1, "d": 2}]}, {"a": 1, "b": [{"c": 1}, {"d": 2}]}):
            with pytest.raises(Conflict):
                await put(topics, "a", other, "x")


async def test_bytes_bound_a_topic_as_well(tmp_path: Path) -> None:
    async with opened(f"sqlite:///{tmp_path / 'mesh.db'}", TopicLimits(bytes=5000)) as topics:
        for number in range(20):
            await put(topics, "a", f"{number:1000}")
        assert await seqs(topics, "a") == [17, 18, 19, 20]
        await put(topics, "a", "x" * 10_000)
        assert await seqs(topics, "a") == [21], "the newest stays"


async def test_topics_of_a_team_that_keeps_too_much_shrink_to_equal_parts(tmp_path: Path) -> None:
    limits = TopicLimits(topics=4, bytes=8000, team_bytes=16_000)
    async with opened(f"sqlite:///{tmp_path / 'mesh.db'}", limits) as topics:
        for topic in ("a", "b"):
            for number in range(6):
                await put(topics, topic, f"{number:1000}")
            assert len(await seqs(topics, topic)) == 6, "while there is room a topic takes what it may"
        for topic in ("c", "d", "a", "b"):
            for number in range(6):
                await put(topics, topic, f"{number:1000}")
        kept = [len(await seqs(topics, topic)) for topic in ("a", "b", "c", "d")]
        assert sum(kept) * 1200 <= 16_000 + 4 * 1300, kept
        assert min(kept) >= 3, kept


async def test_watchers_of_a_topic_that_is_deleted_get_what_is_published_after_that_and_nothing_old(
    tmp_path: Path,
) -> None:
    async with opened(f"sqlite:///{tmp_path / 'mesh.db'}") as topics, asyncio.timeout(PATIENCE):
        await put(topics, "a", "old-1")
        await put(topics, "a", "old-2")
        async with aclosing(await topics.watch("red", "a", 0, ALWAYS)) as pieces:
            await _piece_with(pieces, b"old-2")
            await topics.delete("red", "a")
            with pytest.raises(NotFound):
                await topics.delete("red", "a")
            with pytest.raises(NotFound):
                await topics.messages("red", "a", 0, 10)
            assert await put(topics, "a", "new") == 3
            await _piece_with(pieces, b"new")
            async with aclosing(await topics.watch("red", "a", 1, ALWAYS)) as late:
                assert b"event: events-lost" in await _piece_with(late, b"event:")
                await put(topics, "a", "newer")
                assert b"old" not in await _piece_with(late, b"newer")
        assert await seqs(topics, "a") == [3, 4]


async def _piece_with(pieces: AsyncGenerator[bytes], text: bytes) -> bytes:
    """Return the stream up to the text."""
    found = b""
    while text not in found:
        found += await anext(pieces)
    return found


async def race(url: str, rounds: int) -> None:
    """Eight agents at two hosts on one database, each of which sends each message twice."""
    async with opened(url) as one, opened(url) as other:
        async with asyncio.timeout(PATIENCE):
            watchers = [asyncio.create_task(streamed(topics, "t", 8 * rounds)) for topics in (one, other)]
            sent = [
                put((one, other)[agent % 2], "t", number, str(number), TeamMember(f"agent-{agent}", "red", False))
                for number in range(rounds)
                for agent in range(8)
                for _ in range(2)
            ]
            found = await asyncio.gather(*sent)
            seen = [await watcher for watcher in watchers]
        assert found[::2] == found[1::2], "the same again has its seq"
        assert sorted(found[::2]) == list(range(1, 8 * rounds + 1))
        assert seen == [list(range(1, 8 * rounds + 1))] * 2, "no gap, in order"


@pytest.mark.slow  # a storm
async def test_racing_publishers_lose_and_repeat_nothing(tmp_path: Path) -> None:
    await race(f"sqlite:///{tmp_path / 'mesh.db'}", 5)


@pytest.mark.slow
async def test_the_same_on_postgresql(server: str) -> None:
    await race(new_database(server, "topics"), 25)
