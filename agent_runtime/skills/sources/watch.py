"""Says when something may have changed in a folder, whatever becomes of the folder itself."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path

from agent_common.telemetry import logger

STEP_MS = 25
"""A burst is over when nothing has changed for this long."""
DEBOUNCE_MS = 200
"""A burst that goes on is looked at after this long."""
IDLE_MS = 5000
"""How long at most before somebody looks anyway: a volume may change without a word, and a queue overflow."""
RETRY_SECONDS = 1.0
"""Seconds between looks at a folder that is not there, or cannot be watched."""

log = logger(__name__)


async def watch(folder: Path, on_change: Callable[[], Awaitable[None]], stop: asyncio.Event) -> None:
    """Calls `on_change` after every burst of changes, and now and then without any, until it is told to stop. It is not
    to be cancelled: a thread waits for the changes, and hears of nothing but that event."""
    with ThreadPoolExecutor(1, thread_name_prefix="skill-watch") as thread:
        while not stop.is_set():
            try:
                await on_change()  # also where nothing can be watched
                await _watch_until_replaced(folder, on_change, stop, thread)
            except Exception as error:  # noqa: BLE001  whatever it is, the folder is looked at now and then
                log.warning("the folder of skills cannot be watched", error=str(error))
            with suppress(TimeoutError):
                async with asyncio.timeout(RETRY_SECONDS):
                    await stop.wait()


async def _watch_until_replaced(
    folder: Path, on_change: Callable[[], Awaitable[None]], stop: asyncio.Event, thread: ThreadPoolExecutor
) -> None:
    """Until the folder is another one, or gone."""
    # Its `awatch` does not say when it has begun, and what is saved before that would be missed.
    from watchfiles._rust_notify import RustNotify

    loop = asyncio.get_running_loop()
    began = await loop.run_in_executor(thread, _inode, folder)
    if began is None:
        return
    make = partial(RustNotify, [str(folder)], False, False, 0, True, True)
    with await loop.run_in_executor(thread, make) as changes:
        while not stop.is_set():
            await on_change()
            if await loop.run_in_executor(thread, _inode, folder) != began:
                return
            await loop.run_in_executor(thread, changes.watch, DEBOUNCE_MS, STEP_MS, IDLE_MS, stop)


def _inode(folder: Path) -> int | None:
    try:
        return folder.stat().st_ino
    except OSError:
        return None
