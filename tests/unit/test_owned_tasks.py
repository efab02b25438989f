from __future__ import annotations

import asyncio

import pytest

from agent_common.owned_tasks import OwnedTasks


async def test_an_error_is_logged_with_the_name_of_its_task(caplog: pytest.LogCaptureFixture) -> None:
    async def fail() -> None:
        raise ValueError("out of paper")

    owned = OwnedTasks()
    await asyncio.wait([owned.start(fail(), "printing")])
    await owned.close()
    [line] = caplog.records
    assert line.getMessage() == "task_failed"
    assert line.__dict__["facts"] == {"task": "printing", "why": "ValueError('out of paper')"}


async def test_a_close_waits_as_long_as_it_is_told_and_cancels_the_rest() -> None:
    owned, ends = OwnedTasks(), list[str]()
    asked = asyncio.Event()

    async def end_in_time() -> None:
        await asked.wait()
        ends.append("in time")

    async def never() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            ends.append("cancelled")
            raise

    for work in (end_in_time, never):
        owned.start(work())
    await asyncio.sleep(0)
    asked.set()
    await owned.close(0.05)
    assert ends == ["in time", "cancelled"]


async def test_a_close_ends_what_its_tasks_start_meanwhile() -> None:
    owned = OwnedTasks()

    async def start_another_one() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            owned.start(asyncio.sleep(0.05))

    owned.start(start_another_one())
    await asyncio.sleep(0)
    await owned.close()
    assert asyncio.all_tasks() == {asyncio.current_task()}
