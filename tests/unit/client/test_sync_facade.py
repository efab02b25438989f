"""Calls without `await` that are interrupted: each has ended when the interruption goes on, whenever that came."""

from __future__ import annotations

import asyncio
import signal
import sys
import threading
from collections.abc import AsyncGenerator, Callable, Iterator
from typing import Any

import anyio
import pytest
from anyio.from_thread import start_blocking_portal

from agent_client.sync.facade import Facade, iterating, wait_for


class Interrupted:
    """A loop whose caller is interrupted once: as it hands a call over, before or after, or as it waits."""

    def __init__(self, loop: asyncio.AbstractEventLoop, moment: str) -> None:
        self._loop, self._moment = loop, moment

    def call_soon_threadsafe(self, callback: Callable[[], None]) -> None:
        moment, self._moment = self._moment, ""
        if moment == "before":
            raise KeyboardInterrupt
        self._loop.call_soon_threadsafe(callback)
        if moment == "after":
            asyncio.run_coroutine_threadsafe(asyncio.sleep(0), self._loop).result()  # the call has begun
            raise KeyboardInterrupt
        if moment == "waiting":
            asyncio.run_coroutine_threadsafe(interrupt(threading.get_ident()), self._loop)


async def interrupt(waiting: int) -> None:
    """Interrupt a thread that waits by a signal that does not wake it: the kernel may tell another thread of it, or
    this one just before it waits."""
    while sys._current_frames()[waiting].f_code.co_name != "wait_for":
        await anyio.sleep(0.01)
    await anyio.sleep(0.05)
    signal.pthread_kill(threading.get_ident(), signal.SIGINT)


class Feed:
    def __init__(self) -> None:
        self.log: list[str] = []

    async def items(self) -> AsyncGenerator[int]:
        try:
            self.log.append("began")
            await anyio.sleep(20)
            self.log.append("went on")
            yield 1
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.sleep(0.02)
            self.log.append("ended")


class SyncFeed(Facade[Feed]):
    items = iterating(Feed.items)


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    with start_blocking_portal() as portal:
        yield portal.call(asyncio.get_running_loop)


@pytest.mark.parametrize(
    ("moment", "log"), [("before", []), ("after", ["began", "ended"]), ("waiting", ["began", "ended"])]
)
def test_a_generator_that_is_interrupted_has_ended(
    loop: asyncio.AbstractEventLoop, moment: str, log: list[str]
) -> None:
    feed = Feed()
    interrupted: Any = Interrupted(loop, moment)
    with pytest.raises(KeyboardInterrupt):
        next(SyncFeed(feed, interrupted).items())
    assert feed.log == log


def test_a_call_that_fails_raises_its_error_and_the_loop_goes_on(loop: asyncio.AbstractEventLoop) -> None:
    async def fails() -> int:
        raise ValueError("no")

    async def works() -> int:
        return 1

    with pytest.raises(ValueError, match="no"):
        wait_for(loop, fails)
    assert wait_for(loop, works) == 1


def test_a_call_that_is_handed_to_a_loop_as_it_closes_ends() -> None:
    loop, ended = asyncio.new_event_loop(), list[str]()

    def call() -> None:
        with pytest.raises(RuntimeError, match="closed"):
            wait_for(loop, anyio.sleep_forever)
        ended.append("it was told")

    calling = threading.Thread(target=call, daemon=True)
    calling.start()
    threading.Timer(0.1, loop.close).start()
    calling.join(20)
    assert ended == ["it was told"]
