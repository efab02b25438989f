"""Tasks that run beside each other for as long as the process does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterable
from contextlib import asynccontextmanager

from agent_common.backoff import Backoff
from agent_common.telemetry import logger

log = logger(__name__)
CLOSE_SECONDS = 3.0
"""Time for one part to close when the process ends."""
RESTART = Backoff(1.0, 30.0, jitter=0.5)


@asynccontextmanager
async def running(work: Iterable[Coroutine[None, None, None]]) -> AsyncGenerator[list[asyncio.Task[None]]]:
    """Run these beside the body of the `with`, and cancel them at its end."""
    tasks = [asyncio.create_task(one) for one in work]
    try:
        yield tasks
    finally:
        await cancel(tasks)


async def cancel(tasks: Iterable[asyncio.Task[None]]) -> None:
    """Cancel tasks and wait for their ends, but not for one that hangs."""
    left = [*tasks]
    for task in left:
        task.cancel()
    if left:
        await asyncio.wait(left, timeout=CLOSE_SECONDS)


async def restarted(name: str, work: Callable[[], Awaitable[None]], *, backoff: Backoff = RESTART) -> None:
    """Run something that ends only by a fault, again and again until it is cancelled."""
    failures = 0
    while True:
        try:
            await work()
            log.error("a task of the bots ended", task=name)
        except Exception:
            log.exception("a task of the bots failed", task=name)
        failures += 1
        await asyncio.sleep(backoff.pause(failures))


async def closed(name: str, close: Callable[[], Awaitable[None]]) -> None:
    """Close a part; that it fails or hangs is only logged."""
    try:
        async with asyncio.timeout(CLOSE_SECONDS):
            await close()
    except Exception as error:  # noqa: BLE001  the others must be closed too
        log.warning("a part of the bots did not close", part=name, reason=repr(error))
