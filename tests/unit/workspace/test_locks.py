"""Changes of one path wait for each other, and nobody else for them."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

from agent_runtime.workspace import PathLocks

FILE = Path("/srv/a.txt")


async def test_who_waits_for_the_thread_of_a_cancelled_call_keeps_no_thread() -> None:
    locks, holds, release = PathLocks(), threading.Event(), threading.Event()
    entered: list[int] = []

    def hang() -> None:
        with locks.thread_lock(FILE):
            holds.set()
            release.wait(10)

    def change(number: int) -> None:
        with locks.thread_lock(FILE):
            entered.append(number)

    async def call(number: int) -> None:
        async with locks.async_lock(FILE):
            await asyncio.to_thread(change, number)

    async def hanging() -> None:
        async with locks.async_lock(FILE):
            await asyncio.to_thread(hang)

    first = asyncio.create_task(hanging())
    await asyncio.to_thread(holds.wait, 10)
    first.cancel()
    try:
        for number in range(40):  # more than there are threads
            given_up = asyncio.create_task(call(number))
            await asyncio.sleep(0.005)
            given_up.cancel()
        waiting = [asyncio.create_task(call(number)) for number in (100, 101, 102)]
        async with asyncio.timeout(5):
            assert await asyncio.to_thread(lambda: list(entered)) == []
    finally:
        release.set()
    async with asyncio.timeout(5):
        await asyncio.gather(*waiting)
    assert entered == [100, 101, 102]
