"""Calls without `await` that are interrupted: each has ended when the interruption goes on, whenever that came."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator
from concurrent.futures import Future
from typing import Any

import anyio
import pytest
from anyio.from_thread import BlockingPortal, start_blocking_portal

from agent_client.sync.facade import Facade, iterating, wait_for


class Interrupted:
    """A portal whose thread is interrupted once: as it hands a call over, before or after, or as it waits."""

    def __init__(self, portal: BlockingPortal, moment: str) -> None:
        self.call = portal.call
        self._portal, self._moment = portal, moment

    def start_task_soon(self, call: Any) -> Future[Any]:
        moment, self._moment = self._moment, ""
        if moment == "before":
            raise KeyboardInterrupt
        future = self._portal.start_task_soon(call)
        if moment == "after":
            raise KeyboardInterrupt
        if moment == "waiting":
            future.result = self._interrupt  # type: ignore[method-assign]
        return future

    def _interrupt(self, timeout: float | None = None) -> Any:
        raise KeyboardInterrupt


class Feed:
    def __init__(self) -> None:
        self.log: list[str] = []

    async def items(self) -> AsyncGenerator[int]:
        try:
            self.log.append("began")
            await anyio.sleep_forever()
            yield 1
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.sleep(0.02)
            self.log.append("ended")


class SyncFeed(Facade[Feed]):
    items = iterating(Feed.items)


@pytest.fixture
def portal() -> Iterator[BlockingPortal]:
    with start_blocking_portal() as portal:
        yield portal
        portal.call(portal.stop, True)  # a call that was left behind would keep the thread from ending


@pytest.mark.parametrize(
    ("moment", "log"), [("before", []), ("after", ["began", "ended"]), ("waiting", ["began", "ended"])]
)
def test_a_generator_that_is_interrupted_has_ended(portal: BlockingPortal, moment: str, log: list[str]) -> None:
    feed = Feed()
    interrupted: Any = Interrupted(portal, moment)
    with pytest.raises(KeyboardInterrupt):
        next(SyncFeed(feed, interrupted).items())
    assert feed.log == log


def test_a_call_that_fails_raises_its_error_and_the_portal_goes_on(portal: BlockingPortal) -> None:
    async def fails() -> int:
        raise ValueError("no")

    async def works() -> int:
        return 1

    with pytest.raises(ValueError, match="no"):
        wait_for(portal, fails)
    assert wait_for(portal, works) == 1
