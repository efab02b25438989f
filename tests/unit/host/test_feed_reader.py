"""What is new goes to a client at once where it can, and else wakes up the task that serves it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest

from agent_host.feeds import LoggedEvent
from agent_host.feeds.feed_reader import FeedReader


def event(number: int, key: str = "news/a") -> LoggedEvent:
    return LoggedEvent(number, key, b"id: %d\n\n" % number)


@asynccontextmanager
async def waiting(reader: FeedReader) -> AsyncGenerator[asyncio.Task[None]]:
    task = asyncio.create_task(reader.wait())
    await asyncio.sleep(0)
    yield task
    task.cancel()


def make_reader(pushed: list[bytes], *, takes: bool = True) -> FeedReader:
    def push(piece: bytes) -> bool:
        if takes:
            pushed.append(piece)
        return takes

    return FeedReader(position=1, prefix="news/", push=push, check_at=100.0)


async def test_a_client_that_waits_gets_what_is_new_and_its_task_sleeps_on() -> None:
    pushed: list[bytes] = []
    reader = make_reader(pushed)
    async with waiting(reader) as task:
        reader.offer([event(2), event(3, "other"), event(4)], now=7.0)
        reader.offer([event(5, "other")], now=8.0)
        await asyncio.sleep(0)
        assert (pushed, reader.position, reader.sent_at) == ([b"id: 2\n\nid: 4\n\n"], 5, 7.0)
        assert not task.done()


@pytest.mark.parametrize(
    ("first", "now", "takes"),
    [(3, 0.0, True), (1, 0.0, True), (2, 100.0, True), (2, 0.0, False)],
    ids=["events between are missing", "it has one of them", "it must be asked whether it may", "it reads slowly"],
)
async def test_what_cannot_be_given_at_once_wakes_up_the_task(first: int, now: float, takes: bool) -> None:
    pushed: list[bytes] = []
    reader = make_reader(pushed, takes=takes)
    async with waiting(reader) as task:
        reader.offer([event(first), event(first + 1)], now)
        reader.offer([event(first + 2)], now)  # comes after what was not given yet
        async with asyncio.timeout(60):
            await task
        assert (pushed, reader.position) == ([], 1)


async def test_a_task_that_does_not_wait_looks_for_itself() -> None:
    pushed: list[bytes] = []
    reader = make_reader(pushed)
    reader.offer([event(2)], now=0.0)
    assert (pushed, reader.position, reader.woken.is_set()) == ([], 1, True)
