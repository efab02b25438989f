"""Report when something may have changed in a folder, even if the folder itself is replaced."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path

from agent_common.telemetry import logger

STEP_MS = 25
"""A burst of changes is over when nothing has changed for this long."""
DEBOUNCE_MS = 200
"""A longer burst is reported after this long."""
IDLE_MS = 5000
"""Time after which a scan runs without an event: some volumes report no changes, and the event queue may overflow."""
RETRY_SECONDS = 1.0
"""Seconds between scans of a folder that is missing or cannot be watched."""

log = logger(__name__)


async def watch(folder: Path, on_change: Callable[[], Awaitable[None]], stop: asyncio.Event) -> None:
    """Call `on_change` after every burst of changes, and every few seconds without any, until `stop` is set. Do not
    cancel this: a thread waits for the changes, and only that event ends it."""
    with ThreadPoolExecutor(1, thread_name_prefix="skill-watch") as thread:
        while not stop.is_set():
            try:
                await on_change()  # also where nothing can be watched
                await _watch_until_replaced(folder, on_change, stop, thread)
            except Exception as error:  # noqa: BLE001  after any error the folder is still scanned at intervals
                log.warning("the folder of skills cannot be watched", error=str(error))
            with suppress(TimeoutError):
                async with asyncio.timeout(RETRY_SECONDS):
                    await stop.wait()


async def _watch_until_replaced(
    folder: Path, on_change: Callable[[], Awaitable[None]], stop: asyncio.Event, thread: ThreadPoolExecutor
) -> None:
    """Watch until the folder is replaced or gone."""
    # `watchfiles.awatch` does not say when it has begun, and a save before that would be missed.
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
