from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from agent_runtime.skills.sources.watch import watch


@pytest.mark.slow
@pytest.mark.parametrize("there", [True, False])
async def test_a_look_that_fails_is_not_the_last_one(tmp_path: Path, there: bool) -> None:
    """The server may be out of threads or memory for a moment."""
    looks, stop, looked = 0, asyncio.Event(), asyncio.Event()

    async def look() -> None:
        nonlocal looks
        looks += 1
        if looks <= 2:
            raise RuntimeError("can't start new thread")
        looked.set()

    watching = asyncio.create_task(watch(tmp_path if there else tmp_path / "gone", look, stop))
    async with asyncio.timeout(60):
        await looked.wait()
        stop.set()
        await watching
