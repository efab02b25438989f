"""Watchers look for themselves now and then, whatever is announced."""

from __future__ import annotations

import asyncio

import pytest

from agent_common.http import never_push
from agent_host.feeds import FeedMemory, LoggedEvent, LogRange, log_feed
from agent_host.feeds.feed_reader import FeedReader


class EmptyLog:
    name, team = "an empty log", "red"

    async def range(self) -> LogRange:
        return LogRange(1, 0)

    async def read(self, after: int) -> list[LoggedEvent]:
        return []


async def test_readers_look_also_while_nothing_is_announced_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """As by writes that are refused: their watchers would not be asked whether they still may watch."""
    monkeypatch.setattr(log_feed, "LOOK_SECONDS", 0.2)
    feed = log_feed.LogFeed(EmptyLog(), 0, FeedMemory())
    reader = FeedReader(position=0, prefix="", push=never_push)
    feed.readers.add(reader)
    await asyncio.sleep(0.05)  # its first look is over
    look = asyncio.create_task(reader.wait())
    async with asyncio.timeout(60):
        while not look.done():
            feed.announce()
            await asyncio.sleep(0.01)
    await feed.stop()
